"""Writing from Spark.

options      option strings and columns, checked   (pure)
task         one task's rows -> stages
destination  the logs behind a path, and how a batch is added to them
sink         what Spark calls: stage in tasks, publish on the driver
"""

"""The documentation site: `python -m tools.docs_site` collects its pages and builds them; every warning is an error.

    pages     which files of the repository are pages of the site, and the links between them
    api       the pages of the reference, whose text is in the docstrings
    options   docs/options.md: every option of a log, a topic and a server; commands: those of commands and programs

See adr/0050.
"""

"""HTTP connections and bodies."""

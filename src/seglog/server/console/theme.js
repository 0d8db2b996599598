/* Sets the chosen scheme before anything is painted; that is why this one file is no module. */
{
  let chosen = null;
  try {
    chosen = localStorage.getItem("seglog.scheme");
  } catch {
    // storage is not allowed: use the system's scheme
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.scheme = chosen;
}

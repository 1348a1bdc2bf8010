// Before anything is drawn: the theme that was chosen here; none: what the system says.
const chosen = localStorage.getItem("theme");
if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;

// Light and dark; then everything that needs this script is shown, and the still picture goes.

const theme = byId("theme");
const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme || (prefersDark.matches ? "dark" : "light")) === "dark";
const nameTheme = () => (theme.textContent = isDark() ? "Light" : "Dark");
theme.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  changeTheme();
});
function changeTheme() {
  nameTheme();
  tint();
  redraw();
}
prefersDark.addEventListener("change", changeTheme);
nameTheme();
tint();
theme.hidden = false;

// Begin.

document.documentElement.classList.add("js");
stage.hidden = false;
for (const part of document.querySelectorAll(".live")) part.hidden = false;
pin(-1);
new ResizeObserver(() => redraw()).observe(stage);
update();

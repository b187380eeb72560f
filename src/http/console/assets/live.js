// Loads the page again every two seconds while it can be seen, and replaces its content.
const pause = 2000;

async function update() {
  if (!document.hidden) {
    const response = await fetch(location.href).catch(() => null);
    if (response?.ok) {
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      const [shown, fresh] = [document, page].map((it) => it.getElementById("live"));
      // A list that is being used by keyboard stays.
      if (shown && fresh && !shown.contains(document.activeElement)) shown.replaceWith(fresh);
    }
  }
  setTimeout(update, pause);
}

setTimeout(update, pause);

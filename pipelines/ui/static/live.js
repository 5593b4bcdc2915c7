// a page of something that goes on is fetched again until it has ended, while somebody looks at it
const SECONDS = 3;

async function refresh() {
  if (!document.hidden && getSelection().isCollapsed) {
    const answer = await fetch(location.href).catch(() => null);
    if (answer?.ok) {
      const next = new DOMParser().parseFromString(await answer.text(), "text/html");
      const [before, after] = [document.getElementById("main"), next.getElementById("main")];
      if (before.innerHTML !== after.innerHTML) before.replaceWith(after);
      document.title = next.title;
      if (!next.querySelector("script")) return;
    }
  }
  setTimeout(refresh, SECONDS * 1000);
}

setTimeout(refresh, SECONDS * 1000);

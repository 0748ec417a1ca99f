// Runs the scripts of a page once the page has been painted: until then they would only hold it up.
'use strict';

function run() {
  for (const link of document.querySelectorAll('link[data-run]')) {
    const script = document.createElement('script');
    script.src = link.href;
    script.async = false; // One after another.
    document.head.append(script);
  }
}

// A hidden page is not painted. htmx begins by itself where the page is complete.
addEventListener('load', () => (document.hidden ? run() : requestAnimationFrame(() => setTimeout(run))));

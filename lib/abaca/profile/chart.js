(function () {
  "use strict";
  var wide = 1200, letter = 6.6;
  var boxes = Array.prototype.slice.call(document.querySelectorAll(".box"));
  var detail = document.getElementById("detail"), found = document.getElementById("found");
  var search = document.getElementById("search");

  // As the page comes, with hundredths: 1200, not 1199.9999999999998.
  function rounded(length) { return Math.round(length * 100) / 100; }

  function number(box, name) { return parseFloat(box.getAttribute("data-" + name)); }

  function write(box, x, w) {
    var text = box.querySelector("text"), name = text.getAttribute("data-name");
    var room = Math.floor((w - 6) / letter);
    text.setAttribute("x", x + 3);
    text.textContent = room - 3 > -1 ? (name.length > room ? name.slice(0, room - 2) + ".." : name) : "";
  }

  function show(from, width) {
    boxes.forEach(function (box) {
      var x = number(box, "x"), w = number(box, "w"), end = x + w;
      var out = from + 0.005 >= end || x + 0.005 >= from + width;
      box.classList.toggle("away", out);
      if (out) { return; }
      var left = Math.max(x, from), right = Math.min(end, from + width);
      var at = rounded((left - from) * wide / width), size = rounded((right - left) * wide / width);
      var rect = box.querySelector("rect");
      rect.setAttribute("x", at);
      rect.setAttribute("width", size);
      write(box, at, size);
    });
  }

  function all() { show(0, wide); }

  function choose(box) {
    detail.textContent = box.getAttribute("aria-label");
    show(number(box, "x"), Math.max(number(box, "w"), 0.01));
  }

  function mark() {
    var wanted = search.value.toLowerCase(), sum = 0, end = -1;
    boxes.forEach(function (box) {
      var name = box.querySelector("text").getAttribute("data-name").toLowerCase();
      var has = wanted !== "" && name.indexOf(wanted) !== -1;
      box.classList.toggle("found", has);
      if (has && number(box, "x") + 0.005 >= end) {
        sum += number(box, "w");
        end = number(box, "x") + number(box, "w");
      }
    });
    found.textContent = wanted === "" ? "" : (sum * 100 / wide).toFixed(1) + "% of the time";
  }

  boxes.forEach(function (box) {
    box.addEventListener("click", function () { choose(box); });
    box.addEventListener("mouseenter", function () { detail.textContent = box.getAttribute("aria-label"); });
    box.addEventListener("keydown", function (event) { if (event.key === "Enter") { choose(box); } });
  });
  search.addEventListener("input", mark);
  document.addEventListener("keydown", function (event) { if (event.key === "Escape") { all(); } });
})();

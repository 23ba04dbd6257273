// Text of any origin, made safe to read: what is invisible, moves other text or runs from right to left is shown as
// \u{HEX}. It only ever becomes text of the page, never HTML.
const HIDDEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0\u2800]|\p{M}{4,}/gu;

function visible(value) {
  return String(value).replace(HIDDEN, (found) =>
    [...found].map((char) => `\\u{${char.codePointAt(0).toString(16).toUpperCase()}}`).join(""));
}

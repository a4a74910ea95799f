// Unicode normalization in linear time. Normalizing sorts each run of combining marks at quadratic cost, so a caller's
// text is normalized in pieces of few marks (UAX #15, "Stream-Safe Text Format").

/** Marks, and the two letters that NFKC turns into marks. */
const MARK = '\\p{M}\\uff9e\\uff9f'
const MAX_RUN = 30

const ASCII = /^[\0-\x7f]*$/
// The pattern is only tried at the beginning of a run: otherwise each mark of a run would cost the time for the rest of
// the run.
const PILED_UP = new RegExp(`(?<![${MARK}])[${MARK}]{${MAX_RUN + 1}}`, 'u')
const PIECE = new RegExp(`[^${MARK}]+[${MARK}]{0,${MAX_RUN}}|[${MARK}]{1,${MAX_RUN}}`, 'gu')

/** Whether the text has more combining marks in a row than any language writes. */
export function hasPiledUpMarks(text: string): boolean {
  return !ASCII.test(text) && PILED_UP.test(text)
}

/** `text.normalize(form)`, except that runs of more than 30 combining marks are normalized in groups of 30. */
export function normalized(text: string, form: 'NFC' | 'NFKC'): string {
  if (ASCII.test(text)) return text
  return PILED_UP.test(text) ? text.replace(PIECE, (piece) => piece.normalize(form)) : text.normalize(form)
}

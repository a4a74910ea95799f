// Texts that a caller, a server or a reviewer may choose, and that must stay texts.

/** Runs if any page takes it for markup or script; with characters that nobody sees, and that turn others around. */
export const hostileText =
  '"\'><script>window.wasRun=1</script><img src=x onerror="window.wasRun=1">{{7*7}}</script>\u202etxt.\u2066\u200b\u0007 end'

export const hostileName = `javascript:window.wasRun=1//${hostileText}`

/** 100 KB, of which a page may show a part. */
export const longText = `${hostileText}${'long '.repeat(20_000)}`

/** Controls that no page may have in its text: each is shown by its name. */
export const hiddenControls = /(?![\n\t])[\p{Cc}\p{Cf}]/u

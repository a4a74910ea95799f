// `URL.canParse` of Node 20 says of an address with a letter such as `ü` that it is none, once V8 has compiled the call.

/** Whether `text`, relative to `base` if there is one, is a URL. */
export function isUrl(text: string, base?: string): boolean {
  try {
    new URL(text, base)
    return true
  } catch (error) {
    if (error instanceof TypeError) return false
    throw error
  }
}

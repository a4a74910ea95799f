// The text that a reader can find in a plain body, whatever its headers say.
import type { Completed } from '../call/outcome.js'

export interface BodyText {
  readonly text: string
  /** The declared kind, if the bytes are of it; `other` may be text, such as in another charset. */
  readonly form: 'json' | 'text' | 'other'
}

/** Undefined for a content coding, and with a medium's type for bytes that are not text. */
export function bodyText(response: Completed, body: Uint8Array): BodyText | undefined {
  if (isCoded(response)) return undefined
  const { type, charset } = contentType(response)
  const text = decoded(body, charset)
  if (text === undefined) {
    if (isMedium(response)) return undefined
    return { text: Buffer.from(body).toString().replaceAll('\0', ''), form: 'other' }
  }
  if (type === 'application/json' || type.endsWith('+json')) return { text, form: 'json' }
  return { text, form: type.startsWith('text/') ? 'text' : 'other' }
}

/** Whether the body has a content coding, which was not asked for. */
export function isCoded({ headers }: Completed): boolean {
  const { 'content-encoding': coding = 'identity' } = headers
  return String(coding).trim().toLowerCase() !== 'identity'
}

/** Whether the body is declared as an image, sound, film or font. */
export function isMedium(response: Completed): boolean {
  return /^(?:image|audio|video|font)\/(?!svg)/.test(contentType(response).type)
}

export function contentType({ headers }: Completed): { readonly type: string; readonly charset: string } {
  const [type = '', ...params] = String(headers['content-type'] ?? '').split(';')
  const [charset = 'utf-8'] = params.flatMap((one) => /^\s*charset\s*=\s*"?([^"\s]*)/i.exec(one)?.[1] ?? [])
  return { type: type.trim().toLowerCase(), charset: charset.toLowerCase() }
}

/** Undefined for an unknown charset, bytes that it has not, and text with NULs, as UTF-16 has in other charsets. */
function decoded(bytes: Uint8Array, charset: string): string | undefined {
  try {
    const text = new TextDecoder(charset, { fatal: true }).decode(bytes)
    return text.includes('\0') ? undefined : text
  } catch (error) {
    if (error instanceof TypeError || error instanceof RangeError) return undefined
    throw error
  }
}

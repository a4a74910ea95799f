// Values in cookies, sealed by a key that all workers and gateways of one store have (AES-256-GCM).
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'

export class Sealing {
  #key: Buffer

  /** 32 bytes. */
  constructor(key: Buffer) {
    this.#key = key
  }

  /** `name` is that of the cookie, under which alone the value opens. */
  seal(name: string, value: object): string {
    const nonce = randomBytes(12)
    const cipher = createCipheriv('aes-256-gcm', this.#key, nonce).setAAD(Buffer.from(name))
    const sealed = [nonce, cipher.update(JSON.stringify(value)), cipher.final()]
    return Buffer.concat([...sealed, cipher.getAuthTag()]).toString('base64url')
  }

  /** Undefined if it was not sealed by this key under this name. */
  open(name: string, text: string): unknown {
    const bytes = Buffer.from(text, 'base64url')
    if (bytes.length < 29 || bytes.toString('base64url') !== text) return undefined
    const decipher = createDecipheriv('aes-256-gcm', this.#key, bytes.subarray(0, 12))
    decipher.setAAD(Buffer.from(name)).setAuthTag(bytes.subarray(-16))
    try {
      const opened = Buffer.concat([decipher.update(bytes.subarray(12, -16)), decipher.final()])
      return JSON.parse(opened.toString())
    } catch {
      return undefined
    }
  }
}

/** The value of a cookie of the request. */
export function cookieIn(header = '', name: string): string | undefined {
  for (const part of header.split(';')) {
    const [found, value] = part.trim().split('=')
    if (found === name) return value
  }
  return undefined
}

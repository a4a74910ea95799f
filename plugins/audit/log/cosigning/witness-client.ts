// Asks one witness for its cosignature (c2sp.org/tlog-witness). The witness says which size it has cosigned before, so
// nothing about it is stored.

import { HttpClient } from '@svc/core/http-client'
import { messageOf } from '@svc/core/json'
import { formatAddCheckpoint, isBy, judgeCosignature, parseTreeSize } from '../format/checkpoint.js'
import type { Digest } from '../format/digest.js'
import { type NamedKey, type Note, parseSignature, signatureLine } from '../format/note.js'

const MAX_RESPONSE_BYTES = 65_536
const CONFLICT = 409
const OK = 200
// The first attempt may not know the size, and another process may submit at the same time.
const MAX_ATTEMPTS = 3

/** The checkpoint that is to be cosigned. */
interface Submission {
  readonly note: Note
  /** The note's text. */
  readonly signed: string
  readonly size: number
  /** The consistency proof from a tree of `older` leaves, at least 1. */
  readonly proof: (older: number) => readonly Digest[]
}

export type CosignResult =
  /** A signature line with its newline; when the witness signed, seconds since the epoch. */
  | { readonly kind: 'cosigned'; readonly line: string; readonly time: number }
  /** The witness has cosigned a larger tree of this log. */
  | { readonly kind: 'ahead'; readonly size: number }

export class WitnessClient {
  readonly key: NamedKey
  readonly url: string
  readonly #timeoutMs: number
  readonly #client = new HttpClient()
  /** Leaves that the witness has cosigned, as far as is known. */
  #cosigned = 0

  constructor(url: string, key: NamedKey, timeoutMs: number) {
    this.url = url.replace(/\/+$/, '')
    this.key = key
    this.#timeoutMs = timeoutMs
  }

  /** The witness is known to have cosigned a tree of this size. */
  hasCosigned(size: number): void {
    this.#cosigned = Math.max(this.#cosigned, size)
  }

  /** @throws {Error} if the witness does not cosign, with the reason for an operator. */
  async cosign(submission: Submission, signal: AbortSignal): Promise<CosignResult> {
    for (let attempt = 1; ; attempt++) {
      const { signed, size, proof } = submission
      const old = this.#cosigned
      const body = formatAddCheckpoint(old, old === 0 ? [] : proof(old), signed)
      const { status, text } = await this.#post(body, signal)
      if (status === OK) {
        const response = this.#cosignatureIn(text, submission.note)
        this.#cosigned = size
        return response
      }
      if (status !== CONFLICT) throw new Error(`it responded with ${status}: ${firstLine(text)}`)
      const known = text.endsWith('\n') ? parseTreeSize(text.slice(0, -1)) : undefined
      if (known === undefined) throw new Error('it responded with 409 without the size that it has cosigned')
      if (known > size) return { kind: 'ahead', size: known }
      if (attempt === MAX_ATTEMPTS)
        throw new Error(`it responded with 409 again, with ${known} after ${old} leaves`)
      this.#cosigned = known
    }
  }

  /** The cosignature of the expected key in the response, checked. */
  #cosignatureIn(text: string, note: Note): CosignResult {
    for (const line of text.split('\n')) {
      const signature = parseSignature(line)
      if (signature === undefined || !isBy(signature, this.key)) continue
      const judged = judgeCosignature({ text: note.text, signatures: [signature] }, this.key)
      if (judged.kind !== 'valid') break
      const cosignature = signatureLine(signature.name, signature.keyId, signature.signature)
      return { kind: 'cosigned', line: cosignature, time: judged.time }
    }
    throw new Error(`its response has no valid cosignature of ${this.key.name}`)
  }

  async #post(body: string, signal: AbortSignal): Promise<{ status: number; text: string }> {
    try {
      const { status, bytes, isCut } = await this.#client.send(`${this.url}/add-checkpoint`, {
        body,
        headers: { 'content-type': 'text/plain; charset=utf-8' },
        timeoutMs: this.#timeoutMs,
        signal,
        maxBytes: MAX_RESPONSE_BYTES,
      })
      if (isCut) throw new Error(`the response is over ${MAX_RESPONSE_BYTES} bytes`)
      return { status, text: bytes.toString('utf8') }
    } catch (cause) {
      throw new Error(`the request failed: ${messageOf(cause)}`, { cause })
    }
  }
}

function firstLine(text: string): string {
  // The text is another party's and goes into a log line.
  return (text.split('\n')[0] ?? '').replace(/[^\x20-\x7e]/g, '?').slice(0, 200)
}

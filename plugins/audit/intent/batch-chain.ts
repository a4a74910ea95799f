// The signatures of an intent journal. Who can only write to the directory must not get a record signed, so the signer of
// the log signs the first line of each file, which names a key that one process has in its memory, and that key signs each
// batch of lines with its number and what comes before it. A batch is written with one sync, beside which a signature is cheap.

import { randomBytes } from 'node:crypto'
import type { Signer } from '@svc/core'
import { canonicalize, parseBase64, parseJsonObject, sha256Hex, toBase64 } from '@svc/core/json'
import { publicKeyLine, type SignatureVerifier } from '../log/format/verifier.js'
import { ed25519, SEED_BYTES } from '../log/keys/ed25519.js'
import { signJson } from '../log/keys/signatures.js'

/** A log as its intents name it. */
export interface IntentLog {
  /** `log_id` of its records; null if they have none. */
  logId(): string | null
  readonly signer: Signer
}

/** The key of one process, which is never on disk. */
export class ProcessKey {
  readonly #key = ed25519().signingKey(randomBytes(SEED_BYTES))

  /** The first line of the journal `file`, with its newline. Rejects with `AuditError` `signer_failed`. */
  async firstLine(file: string, { logId, signer }: IntentLog): Promise<string> {
    const session = publicKeyLine(this.#key.publicKey)
    const line = { intents: 1, log_id: logId(), file, session, key_id: signer.keyId }
    return `${canonicalize(await signJson(line, signer))}\n`
  }

  sign(message: Uint8Array): string {
    return toBase64(this.#key.sign(message))
  }
}

/** The lines of a batch. */
interface SignedLines {
  readonly bytes: number
  readonly sha256: string
}

/** The batches of a journal, in order. */
export class BatchChain {
  #before: string
  #number = 0

  /** @param firstLine of the journal, with its newline. */
  constructor(firstLine: string) {
    this.#before = sha256Hex(firstLine)
  }

  get next(): number {
    return this.#number + 1
  }

  /** The next batch, which begins with a line that signs the others. */
  signed(lines: Buffer, key: ProcessKey): Buffer {
    const batch = { bytes: lines.length, sha256: sha256Hex(lines) }
    const sig = key.sign(this.#take(batch))
    return Buffer.concat([Buffer.from(`${JSON.stringify({ batch: this.#number, ...batch, sig })}\n`), lines])
  }

  /** The lines that follow this one, if `key` has signed it as that of the next batch. */
  verified(line: string, key: SignatureVerifier): SignedLines | undefined {
    const { batch, bytes, sha256, sig } = parseJsonObject(line) ?? {}
    const signature = typeof sig === 'string' ? parseBase64(sig) : undefined
    if (batch !== this.next || typeof bytes !== 'number' || typeof sha256 !== 'string') return undefined
    if (signature === undefined || !key.verify(this.#take({ bytes, sha256 }), signature)) return undefined
    return { bytes, sha256 }
  }

  /** The message that is signed for the next batch. */
  #take({ bytes, sha256 }: SignedLines): Buffer {
    this.#number++
    const message = `${this.#before} ${this.#number} ${bytes} ${sha256}`
    this.#before = sha256Hex(message)
    return Buffer.from(message)
  }
}

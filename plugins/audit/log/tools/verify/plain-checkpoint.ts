// Checkpoints with one signature, which nearly all are: recognised by their form, without the parts that are only needed
// where a signature is checked.

import { checkpointText } from '../../tree/checkpoint.js'
import { digestFromBase64 } from '../../tree/journal-codec.js'
import type { Note } from '../../tree/note.js'
import type { KeptCheckpoint } from './checkpoint-walk.js'

const KEY_ID_BYTES = 4
const LINES = 5
const SPECIAL = /[.*+?^${}()|[\]\\]/g
/** The strict base64 of four bytes of key id and 64 of signature. */
const SIGNED = '([A-Za-z0-9+/]{90}[AEIMQUYcgkosw048]=)'

class PlainCheckpoint implements KeptCheckpoint {
  readonly #signed: string

  constructor(
    readonly file: string,
    readonly line: number,
    readonly origin: string,
    readonly size: number,
    readonly root: string,
    signed: string,
  ) {
    this.#signed = signed
  }

  get note(): Note {
    const bytes = Buffer.from(this.#signed, 'base64')
    const signature = bytes.subarray(KEY_ID_BYTES)
    const signatures = [{ name: this.origin, keyId: bytes.subarray(0, KEY_ID_BYTES), signature }]
    return { text: checkpointText(this), signatures }
  }
}

/** The plain checkpoints of `origin` with which `text`, the Latin-1 form of a file's bytes, begins, and their end. */
export function* plainCheckpoints(
  text: string,
  file: string,
  origin: string,
): Generator<KeptCheckpoint, { readonly end: number; readonly line: number }, void> {
  const name = Buffer.from(origin).toString('latin1').replace(SPECIAL, '\\$&')
  // Followed by another one or nothing, not by another signature.
  const form = `${name}\n([1-9]\\d{0,14})\n([A-Za-z0-9+/]{43}=)\n\n\xe2\x80\x94 ${name} ${SIGNED}\n(?=${name}\n|$)`
  const plain = new RegExp(form, 'y')
  let end = 0
  let line = 1
  for (let match = plain.exec(text); match !== null; match = plain.exec(text)) {
    const [, size, root = '', signed = ''] = match
    const digest = digestFromBase64(root)
    if (digest === undefined) break
    yield new PlainCheckpoint(file, line, origin, Number(size), digest, signed)
    end = plain.lastIndex
    line += LINES
  }
  return { end, line }
}

// A verifier of signed notes, written from c2sp.org/signed-note with node:crypto alone, that shares no code with
// this project.

import { createHash, createPublicKey, type KeyObject, verify } from 'node:crypto'

/** The text of a note that `publicKey` has signed as `name`; throws if it has not. */
export function openNote(signed: string, name: string, publicKey: Uint8Array): string {
  const end = signed.lastIndexOf('\n\n') + 1
  const text = signed.slice(0, end)
  const id = createHash('sha256')
    .update(`${name}\n`)
    .update(Buffer.of(1))
    .update(publicKey)
    .digest()
    .subarray(0, 4)
  const key = keyObject(publicKey)
  for (const line of signed.slice(end + 1).split('\n')) {
    const [dash, signedAs, base64 = ''] = line.split(' ')
    const bytes = Buffer.from(base64, 'base64')
    if (dash !== '\u2014' || signedAs !== name || !bytes.subarray(0, 4).equals(id)) continue
    if (verify(null, Buffer.from(text), key, bytes.subarray(4))) return text
    throw new Error('the signature is wrong')
  }
  throw new Error('no signature of this key')
}

export function keyObject(publicKey: Uint8Array): KeyObject {
  const x = Buffer.from(publicKey).toString('base64url')
  return createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
}

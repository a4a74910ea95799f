// Signatures of the Standard Webhooks specification (1.0.0): `v1` with a shared secret, `v1a` with an Ed25519 key.
import { createHmac } from 'node:crypto'
import type { Signer } from '@svc/core'

interface SignedMessage {
  /** The id is the same for every attempt, so that a receiver recognises a repetition. */
  readonly id: string
  /** Seconds since the epoch. */
  readonly timestamp: number
  readonly body: string
}

/** The key of a secret as Standard Webhooks writes it: base64, with or without `whsec_`. Throws for anything else. */
export function readSecret(text: string): Buffer {
  const encoded = text.trim().replace(/^whsec_/, '')
  const key = Buffer.from(encoded, 'base64')
  if (key.toString('base64').replace(/=+$/, '') !== encoded.replace(/=+$/, ''))
    throw new Error('the secret is not base64')
  if (key.length < 24 || key.length > 64) throw new Error('the secret must have 24 to 64 bytes')
  return key
}

/** The headers of one attempt. */
export async function signedHeaders(
  message: SignedMessage,
  keys: { readonly secret?: Buffer | undefined; readonly signer?: Signer | undefined },
): Promise<Record<string, string>> {
  const { id, timestamp, body } = message
  const content = Buffer.from(`${id}.${timestamp}.${body}`)
  const signatures: string[] = []
  if (keys.secret !== undefined)
    signatures.push(`v1,${createHmac('sha256', keys.secret).update(content).digest('base64')}`)
  const { signer } = keys
  if (signer !== undefined) {
    const signature = (await signer.signAsync?.(content)) ?? signer.sign(content)
    signatures.push(`v1a,${Buffer.from(signature).toString('base64')}`)
  }
  return {
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    ...(signatures.length === 0 ? {} : { 'webhook-signature': signatures.join(' ') }),
  }
}

// The proof that a change comes from the browser in which the session began. Cookies go to every port of a host, so that a
// program on another port can have one; the key of the session cannot leave its browser. After RFC 9449 (DPoP): a signature
// over method, URL, time, a nonce, and here also the body.
import { createHash, createPublicKey, type KeyObject, verify } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { type Clock, Refusal } from '@svc/core'
import type { SharedMap } from '@svc/core/store'
import { z } from 'zod'
import type { SessionKey } from '../admin/session.js'

const PROOF_HEADER = 'x-svc-proof'

/** Largest difference between the clocks of browser and gateway, with the time of the way, in milliseconds. */
const SKEW_MS = 60_000
/** Each session has a group, so that one session does not displace the nonces of others. */
export const proofBounds = { ttlMs: 4 * SKEW_MS, maxEntries: 10_000 }

const claimsSchema = z.strictObject({
  method: z.string(),
  path: z.string(),
  body_sha256: z.string(),
  at: z.number(),
  nonce: z.string().regex(/^[A-Za-z0-9_-]{16,64}$/),
})

export class Proofs {
  #clock: Pick<Clock, 'now'>
  /** The nonces that were used, which gateways share. */
  #used: SharedMap

  constructor(clock: Pick<Clock, 'now'>, used: SharedMap) {
    this.#clock = clock
    this.#used = used
  }

  /** Rejects with `Refusal` if the request is not signed by the key, or was sent before. */
  async check(
    { method, url, headers }: Pick<IncomingMessage, 'method' | 'url' | 'headers'>,
    body: Uint8Array,
    key: SessionKey,
  ): Promise<void> {
    const [payload = '', signature = ''] = String(headers[PROOF_HEADER] ?? '').split('.')
    const signed = { key: importSessionKey(key), dsaEncoding: 'ieee-p1363' as const }
    if (!verify('sha256', Buffer.from(payload), signed, Buffer.from(signature, 'base64url'))) {
      throw refusal('it is not signed by the key of the session; sign in again')
    }
    const claims = claimsSchema.safeParse(jsonIn(payload)).data
    const digest = createHash('sha256').update(body).digest('base64url')
    if (claims?.method !== method || claims?.path !== url || claims?.body_sha256 !== digest) {
      throw refusal('it is for another request')
    }
    if (Math.abs(this.#clock.now() - claims.at) > SKEW_MS) throw refusal('it is too old; load the page again')
    if ((await this.#used.add(`proofs ${key.x}`, claims.nonce, '')) !== undefined)
      throw refusal('it was used before')
  }
}

/** @throws {Refusal} `BAD_REQUEST` for a point that is not on the curve */
export function importSessionKey(key: SessionKey): KeyObject {
  try {
    return createPublicKey({ key: { ...key }, format: 'jwk' })
  } catch (cause) {
    throw new Refusal('BAD_REQUEST', 'key: expected a point of P-256.', { cause })
  }
}

function jsonIn(payload: string): unknown {
  try {
    return JSON.parse(Buffer.from(payload, 'base64url').toString())
  } catch {
    // The schema refuses it.
    return undefined
  }
}

function refusal(reason: string): Refusal {
  return new Refusal('TOOL_NOT_ALLOWED', `${PROOF_HEADER}: ${reason}.`)
}

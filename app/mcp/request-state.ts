// Seals a `requestState` (2026-07-28): the client gets ciphertext that only the same caller can send back, to the same server,
// in the same request, at any gateway of the deployment.
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import type { Call, Clock } from '@svc/core'
import { canonicalize, sha256Hex } from '@svc/core/json'
import { callerKey } from '../upstream/send.js'
import type { RpcRequest } from './message.js'

const algorithm = 'aes-256-gcm'
const nonceBytes = 12
const tagBytes = 16
/** Time that a client has to send a state back, in milliseconds; a person may have to respond first. */
export const stateTtlMs = 3_600_000

type StatefulRequest = Pick<RpcRequest, 'method' | 'params'>

/** The params by which a request is repeated, which differ between its rounds. */
const ofRound: ReadonlySet<string> = new Set(['requestState', 'inputResponses', '_meta'])

/** `State` survives JSON. */
export class RequestStates<State extends object> {
  #key: Buffer
  #clock: Clock

  /** `key` has 32 bytes, the same at all gateways that serve one client. */
  constructor(key: Buffer, clock: Clock) {
    this.#key = key
    this.#clock = clock
  }

  seal(call: Call, request: StatefulRequest, state: State): string {
    const nonce = randomBytes(nonceBytes)
    const cipher = createCipheriv(algorithm, this.#key, nonce).setAAD(boundTo(call, request))
    const text = JSON.stringify({ state, until: this.#clock.now() + stateTtlMs })
    return Buffer.concat([nonce, cipher.update(text), cipher.final(), cipher.getAuthTag()]).toString(
      'base64url',
    )
  }

  /** Undefined for everything but a state that was sealed for this caller and request, and has not expired. */
  open(call: Call, request: StatefulRequest, sealed: unknown): State | undefined {
    if (typeof sealed !== 'string') return undefined
    const bytes = Buffer.from(sealed, 'base64url')
    // The decoder skips what is not base64url.
    if (bytes.length <= nonceBytes + tagBytes || bytes.toString('base64url') !== sealed) return undefined
    const decipher = createDecipheriv(algorithm, this.#key, bytes.subarray(0, nonceBytes))
      .setAAD(boundTo(call, request))
      .setAuthTag(bytes.subarray(-tagBytes))
    let text: string
    try {
      text =
        decipher.update(bytes.subarray(nonceBytes, -tagBytes), undefined, 'utf8') + decipher.final('utf8')
    } catch {
      // The only error is that of a tag that does not fit.
      return undefined
    }
    // A gateway has written it, because the tag fits.
    const { until, state } = JSON.parse(text) as { readonly until: number; readonly state: State }
    return this.#clock.now() < until ? state : undefined
  }
}

/** The scope of a state: the caller, the server, the method, and a digest of its params, such as name and arguments. */
function boundTo(call: Call, { method, params }: StatefulRequest): Buffer {
  const kept = Object.fromEntries(Object.entries(params).filter(([name]) => !ofRound.has(name)))
  return Buffer.from(
    JSON.stringify([callerKey(call), call.target.server, method, sha256Hex(canonicalize(kept))]),
  )
}

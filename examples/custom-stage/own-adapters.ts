// Swapping parts through the container: a signer whose key never touches this disk, and a quota adapter of
// your own. Everything that a token names can be swapped so; the gateway asks only for the interface.
import { bind, type QuotaAdapter, type Signer, tokens } from 'svc-sdk/core'
import { type GatewayHandle, type GatewayOptions, startGatewayServer } from 'svc-sdk/gateway'

/** What a KMS client offers: it signs where the key lives, over the network. */
export interface RemoteKey {
  readonly keyId: string
  /** 32 bytes. With it the log seals its records, so that missing ones are found. */
  readonly publicKey: Uint8Array
  sign(data: Uint8Array): Promise<Uint8Array>
  verify(data: Uint8Array, signature: Uint8Array): boolean
}

/** A signer over such a key. The gateway uses `signAsync` where there is one and never blocks on `sign`. */
export function remoteSigner(key: RemoteKey): Signer {
  return {
    keyId: key.keyId,
    publicKey: key.publicKey,
    signAsync: (data) => key.sign(data),
    sign: () => {
      throw new Error('this key signs over the network: use signAsync')
    },
    verify: (data, signature) => key.verify(data, signature),
  }
}

const DAY_MS = 86_400_000

/** Counts in this process: the smallest adapter that keeps the contract. Yours would ask a shared store. */
export class CountingQuotas implements QuotaAdapter {
  #counts = new Map<string, number>()
  #day = 0
  #buckets = new Map<string, { tokens: number; at: number }>()

  async incrDaily(
    tenant: string,
    tool: string,
    limit: number,
    now = Date.now(),
  ): Promise<{ count: number; resetAt: number }> {
    const day = Math.floor(now / DAY_MS)
    if (day !== this.#day) this.#counts.clear()
    this.#day = day
    const key = JSON.stringify([tenant, tool])
    const count = (this.#counts.get(key) ?? 0) + 1
    // A refused call is not counted: a `count` past the limit says so, and the stored one stays.
    if (count <= limit) this.#counts.set(key, count)
    return { count, resetAt: (day + 1) * DAY_MS }
  }

  async takeToken(
    tenant: string,
    tool: string,
    ratePerSec: number,
    burst = Math.max(1, ratePerSec),
    now = Date.now(),
  ): Promise<{ tokens: number; resetAt: number }> {
    const key = JSON.stringify([tenant, tool])
    const { tokens, at } = this.#buckets.get(key) ?? { tokens: burst, at: now }
    const filled = Math.min(burst, tokens + ((now - at) / 1000) * ratePerSec)
    const left = filled - 1
    // Below zero none is taken: the bucket stays as it was, and its time with it.
    if (left >= 0) this.#buckets.set(key, { tokens: left, at: now })
    const missing = Math.max(0, 1 - (left >= 0 ? left : filled))
    return { tokens: left, resetAt: now + (missing / ratePerSec) * 1000 }
  }
}

/** A gateway like any other, but for two of its parts. */
export function startWithOwnParts(
  options: GatewayOptions,
  parts: { readonly signer: Signer; readonly quotas: QuotaAdapter },
): GatewayHandle {
  return startGatewayServer({
    ...options,
    configure: (container) => {
      bind(container, tokens.Signer, { useValue: parts.signer })
      bind(container, tokens.QuotaAdapter, { useValue: parts.quotas })
    },
  })
}

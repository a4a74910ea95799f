// Replaces parts through the container: a signer with a remote key, and a quota adapter. Any token can be bound this
// way; the gateway requires only the interface.
import { bind, type QuotaAdapter, type Signer, tokens } from 'svc-sdk/core'
import { type GatewayHandle, type GatewayOptions, startGatewayServer } from 'svc-sdk/gateway'

/** A key of a KMS, which signs over the network. */
export interface RemoteKey {
  readonly keyId: string
  /** 32 bytes. The log needs it to seal its records, which makes missing ones detectable. */
  readonly publicKey: Uint8Array
  sign(data: Uint8Array): Promise<Uint8Array>
  verify(data: Uint8Array, signature: Uint8Array): boolean
}

/** A signer with such a key. The gateway prefers `signAsync` to `sign`, which blocks. */
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

/** Counts in this process: a minimal adapter. A real one uses a shared store. */
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
    // A refused call is not counted: the result is over the limit, and the stored count stays.
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
    // Below zero no token is taken: the bucket and its time stay as they were.
    if (left >= 0) this.#buckets.set(key, { tokens: left, at: now })
    const missing = Math.max(0, 1 - (left >= 0 ? left : filled))
    return { tokens: left, resetAt: now + (missing / ratePerSec) * 1000 }
  }
}

/** A gateway with these two parts in place of its own. */
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

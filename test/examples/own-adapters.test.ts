import { generateKeyPairSync, sign, verify } from 'node:crypto'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { canonicalize, fromBase64, type JsonValue, sha256Hex } from '@svc/core/json'
import {
  CountingQuotas,
  type RemoteKey,
  remoteSigner,
  startWithOwnParts,
} from '@svc/example-custom-stage/own-adapters'
import { startToolServer, type ToolServer } from '@svc/example-quick-start/tool-server'
import { expect } from 'chai'
import type { GatewayHandle } from 'svc-sdk/gateway'

/** A key that signs elsewhere: a real Ed25519 key, asked asynchronously, that counts how often. */
class KeyElsewhere implements RemoteKey {
  readonly keyId: string
  readonly publicKey: Uint8Array
  signed = 0
  #pair = generateKeyPairSync('ed25519')

  constructor() {
    const { x = '' } = this.#pair.publicKey.export({ format: 'jwk' })
    this.publicKey = new Uint8Array(Buffer.from(x, 'base64url'))
    this.keyId = `ed25519:${sha256Hex(this.publicKey)}`
  }

  async sign(data: Uint8Array): Promise<Uint8Array> {
    this.signed++
    return sign(null, data, this.#pair.privateKey)
  }

  verify(data: Uint8Array, signature: Uint8Array): boolean {
    return verify(null, data, this.#pair.publicKey, signature)
  }
}

describe('the example of custom adapters', () => {
  describe('in a gateway', () => {
    let directory: string
    let tools: ToolServer
    let gateway: GatewayHandle
    let url: string
    const key = new KeyElsewhere()

    before(async () => {
      directory = await mkdtemp(join(tmpdir(), 'svc-own-parts-'))
      tools = await startToolServer()
      gateway = startWithOwnParts(
        {
          port: 0,
          sec0Dir: directory,
          policyObject: {
            tenant: 'demo',
            targets: { billing: tools.url },
            audit: { gatewayName: 'test', gatewayVersion: '1.0.0' },
            authn: { allowUnauthenticated: true },
            quotas: {},
            entitlements: {
              default_plan: 'free',
              plans: { free: { calls_per_day: 2 } },
              tenants: { demo: { plan: 'free', allowlist: ['billing/*'] } },
            },
          },
        },
        { signer: remoteSigner(key), quotas: new CountingQuotas() },
      )
      url = (await gateway.ready()).url
    })

    after(async () => {
      await gateway.close()
      await tools.close()
      await rm(directory, { recursive: true })
    })

    it('count calls and sign records', async () => {
      const statuses: number[] = []
      for (let i = 0; i < 3; i++) {
        const response = await fetch(`${url}/mcp/billing/get_invoice@1.0.0`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: '{"invoice":"INV-1001"}',
        })
        await response.text()
        statuses.push(response.status)
      }
      expect(statuses).to.deep.equal([200, 200, 429])

      const log = join(directory, 'audit', `audit-${new Date().toISOString().slice(0, 10)}.ndjson`)
      const lines = (await readFile(log, 'utf8')).trimEnd().split('\n')
      expect(lines).to.have.length(3)
      expect(key.signed).to.be.at.least(1)
      for (const line of lines) {
        const { sig, ...envelope } = JSON.parse(line) as Record<string, JsonValue>
        expect(envelope['key_id']).to.equal(key.keyId)
        const signature = fromBase64(String(sig).slice('ed25519:'.length))
        expect(key.verify(Buffer.from(canonicalize(envelope)), signature)).to.equal(true)
      }
    })
  })

  describe('the quota adapter', () => {
    const noon = Date.UTC(2026, 0, 1, 12)

    it('refuses past the limit without counting, and starts anew at midnight UTC', async () => {
      const quotas = new CountingQuotas()
      const counts: number[] = []
      for (let i = 0; i < 4; i++) counts.push((await quotas.incrDaily('acme', 'tool', 2, noon)).count)
      expect(counts).to.deep.equal([1, 2, 3, 3])
      const midnight = Date.UTC(2026, 0, 2)
      expect(await quotas.incrDaily('acme', 'tool', 2, midnight - 1)).to.deep.equal({
        count: 3,
        resetAt: midnight,
      })
      expect((await quotas.incrDaily('acme', 'tool', 2, midnight)).count).to.equal(1)
    })

    it('empties a bucket, takes nothing from an empty one, and refills it in time', async () => {
      const quotas = new CountingQuotas()
      const take = async (now: number): Promise<number> =>
        (await quotas.takeToken('acme', 'tool', 0.5, 2, now)).tokens
      expect([await take(noon), await take(noon), await take(noon)]).to.deep.equal([1, 0, -1])
      expect(await take(noon + 1000)).to.equal(-0.5)
      expect(await take(noon + 2000)).to.equal(0)
      expect((await quotas.takeToken('acme', 'tool', 0.5, 2, noon + 2000)).resetAt).to.equal(noon + 4000)
    })

    it('keeps tenants apart', async () => {
      const quotas = new CountingQuotas()
      await quotas.incrDaily('acme', 'tool', 1, noon)
      expect((await quotas.incrDaily('other', 'tool', 1, noon)).count).to.equal(1)
    })
  })
})

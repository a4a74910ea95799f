import type { ServerResponse } from 'node:http'
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { TestIssuer } from '../support/issuer.js'
import { type RedisServer, startRedis } from '../support/redis.js'
import { startTokenEndpoint } from '../support/token-endpoint.js'
import { lastCall, refused, serving } from './rig.js'
import { contractSection } from './section.js'

type Broker = NonNullable<GatewaySettings['brokers']>[string]

const fixed: Broker = {
  type: 'static',
  key_refs: ['env:KEY'],
  inject: { header: 'x-api-key', format: 'raw' },
}
const keys = { KEY: 'k-1', KEY2: 'k-2' }

/** The headers that the tool server gets with this broker. */
async function injected(
  broker: Broker,
  settings: GatewaySettings = {},
  headers: Record<string, string> = {},
) {
  await using rig = await serving({ brokers: { files: broker }, env: keys, ...settings })
  expect((await rig.call({ headers })).status).to.equal(200)
  return lastCall(rig).headers
}

contractSection('2.11', 'brokers', ({ holds, differs }) => {
  const change = (changes: object) => ({ brokers: { files: { ...fixed, ...changes } }, env: keys })

  holds('a', 'A broker belongs to one upstream server, by its name.', async () => {
    expect((await injected(fixed))['x-api-key']).to.equal('k-1')
    refused({ brokers: { nosuch: fixed }, env: keys }, 'brokers.nosuch', 'no target')
  })
  holds('b', '`type` is required, and one of the three.', () => {
    refused(change({ type: undefined }), 'brokers.files.type', 'missing')
    refused(change({ type: 'x' }), 'brokers.files.type', 'vendor_key_pool, oidc_on_behalf or static')
  })
  holds('c', '`type` `vendor_key_pool` injects a key of a pool.', async () => {
    const headers = await injected({ ...fixed, type: 'vendor_key_pool', key_refs: ['env:KEY', 'env:KEY2'] })
    expect(headers['x-api-key']).to.be.oneOf(['k-1', 'k-2'])
  })
  const needsEndpoint =
    'it needs `token_endpoint`, `client_id` and a secret or key besides, which the contract has no keys for'
  differs(
    'd',
    '`type` `oidc_on_behalf` injects a credential on behalf of the caller.',
    needsEndpoint,
    async () => {
      await using issuer = await TestIssuer.start()
      await using endpoint = await startTokenEndpoint()
      const token = await issuer.sign()
      const headers = await injected(
        {
          type: 'oidc_on_behalf',
          token_endpoint: endpoint.url,
          client_id: 'gw',
          client_secret_ref: 'env:KEY',
          inject: { header: 'authorization', format: 'bearer' },
        },
        { authn: { oidc: issuer.oidc } },
        { authorization: `Bearer ${token}` },
      )
      expect(headers.authorization).to.equal('Bearer exchanged-1')
      expect(endpoint.exchanges[0]?.form.get('subject_token')).to.equal(token)
      const { key_refs: _refs, ...bare } = { ...fixed, type: 'oidc_on_behalf' }
      refused({ brokers: { files: bare } }, 'brokers.files.token_endpoint', 'missing')
    },
  )
  holds('e', '`type` `static` injects one fixed key.', async () => {
    expect((await injected(fixed))['x-api-key']).to.equal('k-1')
    refused(change({ key_refs: ['env:KEY', 'env:KEY2'] }), 'brokers.files.key_refs')
  })
  holds('f', '`key_refs` is a list of key references; a key written out is refused.', () => {
    refused(change({ key_refs: 'env:KEY' }), 'brokers.files.key_refs', 'a list')
    refused(change({ key_refs: ['sk-12345'] }), 'brokers.files.key_refs[0]', 'key reference')
  })
  holds('g', '`inject.header` is required, and names the header.', async () => {
    refused(change({ inject: { format: 'raw' } }), 'brokers.files.inject.header', 'missing')
    expect(await injected({ ...fixed, inject: { header: 'X-Own', format: 'raw' } })).to.include({
      'x-own': 'k-1',
    })
  })
  holds('h', '`inject.format` is required, and one of the three.', () => {
    refused(change({ inject: { header: 'x-k' } }), 'brokers.files.inject.format', 'missing')
    const inject = { header: 'x-k', format: 'basic' }
    refused(change({ inject }), 'brokers.files.inject.format', 'raw, bearer or template')
  })
  holds('i', '`inject.format` `raw` sends the key as it is.', async () => {
    expect((await injected(fixed))['x-api-key']).to.equal('k-1')
  })
  holds('j', '`inject.format` `bearer` sends `Bearer ` and the key.', async () => {
    const headers = await injected({ ...fixed, inject: { header: 'authorization', format: 'bearer' } })
    expect(headers.authorization).to.equal('Bearer k-1')
  })
  const needsText =
    'it needs `inject.template` besides, the text with `{{key}}`, which the contract has no key for'
  differs('k', '`inject.format` `template` sends the key within a text.', needsText, async () => {
    const inject = { header: 'x-api-key', format: 'template', template: 'Key id=1,value={{key}}' } as const
    expect((await injected({ ...fixed, inject }))['x-api-key']).to.equal('Key id=1,value=k-1')
    const { template: _template, ...rest } = inject
    refused(change({ inject: rest }), 'brokers.files.inject.template', 'missing')
  })
})

const key = { headers: { 'idempotency-key': 'order-1' } }
const counting = () => {
  let runs = 0
  return (_call: unknown, response: ServerResponse) => {
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ run: ++runs }))
  }
}

const keysOf = async (redis: RedisServer) => (await redis.send('KEYS', '*')) as string[]

contractSection('2.13', 'dedupe', ({ holds }) => {
  holds('a', '`enabled` enables duplicate handling.', async () => {
    await using on = await serving({ dedupe: { enabled: true } }, counting())
    expect([(await on.call(key)).body, (await on.call(key)).body]).to.deep.equal([{ run: 1 }, { run: 1 }])
    await using off = await serving({ dedupe: { enabled: false } }, counting())
    expect([(await off.call(key)).body, (await off.call(key)).body]).to.deep.equal([{ run: 1 }, { run: 2 }])
  })
  holds('b', '`duplicatePolicy` `replay` responds to a duplicate with the first response.', async () => {
    await using rig = await serving({ dedupe: { duplicatePolicy: 'replay' } }, counting())
    await rig.call(key)
    const { body, headers } = await rig.call(key)
    expect(body).to.deep.equal({ run: 1 })
    expect(headers.get('x-dedupe')).to.equal('replay')
    expect(rig.upstream.calls).to.have.length(1)
  })
  holds('c', '`duplicatePolicy` `reject` refuses a duplicate.', async () => {
    await using rig = await serving({ dedupe: { duplicatePolicy: 'reject' } }, counting())
    await rig.call(key)
    const { status, body } = await rig.call(key)
    expect(body).to.include({ error: 'IDEMPOTENT_DUPLICATE' })
    expect(status).to.equal(409)
    refused({ dedupe: { duplicatePolicy: 'drop' } }, 'dedupe.duplicatePolicy', 'replay or reject')
  })
  holds('d', '`ttlSec` is the cache window in seconds.', async () => {
    await using redis = await startRedis()
    await using rig = await serving({ dedupe: { ttlSec: 77, redisUrl: redis.url } }, counting())
    await rig.call(key)
    // The list of blocks, its readers and the epochs of the spaces are beside them.
    const [stored = ''] = (await keysOf(redis)).filter((name) => /\{claims-\d+\}:/.test(name))
    expect(stored).to.match(/^svc:dedupe/)
    expect(await redis.send('TTL', stored)).to.be.within(60, 77)
    refused({ dedupe: { ttlSec: '1h' } }, 'dedupe.ttlSec', 'whole number')
  })
  holds('e', '`namespace` is the prefix of the keys.', async () => {
    await using redis = await startRedis()
    await using rig = await serving({ dedupe: { namespace: 'mine', redisUrl: redis.url } }, counting())
    await rig.call(key)
    const stored = await keysOf(redis)
    expect(stored).to.have.length.above(0)
    for (const name of stored) expect(name).to.match(/^mine/)
  })
  holds('f', '`redisUrl` is the address of the store, which gateways share.', async () => {
    await using redis = await startRedis()
    await using one = await serving({ dedupe: { redisUrl: redis.url } }, counting())
    await using other = await serving({ dedupe: { redisUrl: redis.url } }, counting())
    await one.call(key)
    expect((await other.call(key)).headers.get('x-dedupe')).to.equal('replay')
    expect(other.upstream.calls).to.have.length(0)
  })
})

contractSection('2.14', 'audit (gateway integration)', ({ holds, differs }) => {
  const written: Record<string, unknown>[] = []
  const audit = {
    append: async (record: object) => {
      written.push({ ...record })
    },
    gatewayName: 'edge',
    gatewayVersion: '2.1.0',
    clientName: 'desk',
  }
  const recordOf = async (changes: object = {}) => {
    written.length = 0
    await using rig = await serving({ audit: { ...audit, ...changes } })
    expect((await rig.gateway.invoke('/mcp/files/read@1.0.0')).status).to.equal(200)
    return written[0] ?? {}
  }
  holds('a', '`append(env)` writes the envelopes, and returns a promise.', async () => {
    expect(await recordOf()).to.include({ tool: 'read@1.0.0', status: 'ok', tenant: 'acme' })
    expect(written).to.have.length(1)
    await using rig = await serving({ audit: { ...audit, append: () => Promise.reject(new Error('disk')) } })
    expect((await rig.gateway.invoke('/mcp/files/read@1.0.0')).status).to.be.oneOf([500, 503])
  })
  const why = 'it is optional: without it the gateway signs and writes the log itself'
  differs('b', '`append` is required, a function.', why, async () => {
    refused({ audit: { ...audit, append: 'x' } }, 'audit.append', 'a function')
    await using rig = await serving((home) => ({
      audit: {
        gatewayName: 'gw',
        gatewayVersion: '1.0.0',
        dir: `${home}/audit`,
        signer: { keyRef: `file://${home}/key` },
      },
    }))
    expect((await rig.call()).record).to.include({ gateway: 'gw@1.0.0' })
  })
  holds('c', '`gatewayName` is required, and in every record.', async () => {
    expect(await recordOf()).to.include({ gateway: 'edge@2.1.0' })
    refused({ audit: { ...audit, gatewayName: undefined } }, 'audit.gatewayName', 'missing')
  })
  holds('d', '`gatewayVersion` is required, and in every record.', async () => {
    expect(await recordOf({ gatewayVersion: '9.9.9' })).to.include({ gateway: 'edge@9.9.9' })
    refused({ audit: { ...audit, gatewayVersion: undefined } }, 'audit.gatewayVersion', 'missing')
  })
  holds('e', '`clientName` is optional, and in every record.', async () => {
    expect(await recordOf()).to.include({ client_name: 'desk' })
    expect(await recordOf({ clientName: undefined })).to.include({ client_name: 'edge' })
  })
})

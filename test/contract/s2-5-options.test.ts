import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { startGatewayServer } from 'svc-sdk'
import { stringify } from 'yaml'
import { startTestGateway } from '../support/gateway.js'
import { TestIssuer } from '../support/issuer.js'
import { startUpstream } from '../support/upstream.js'
import { openLog } from './log.js'
import { complete, denialOf, lastCall, refusal, refused, serving, starts } from './rig.js'
import { contractSection } from './section.js'

/** A policy section in an override, and how to see that the gateway runs on it. */
interface Mapped {
  readonly letter: string
  readonly name: string
  readonly section: Record<string, unknown>
  /** The status of a call to `read@1.0.0` with a URL argument; 200 without the section. */
  readonly status: number
  readonly code: string
}

const mapped: readonly Mapped[] = [
  { letter: 'm', name: 'authn', section: { authn: {} }, status: 401, code: 'UNAUTHENTICATED' },
  {
    letter: 'n',
    name: 'entitlements',
    section: { entitlements: { default_plan: 'p', plans: { p: { allowlist: [] } }, tenants: {} } },
    status: 403,
    code: 'TOOL_NOT_ALLOWED',
  },
  {
    letter: 'p',
    name: 'targets',
    section: { targets: { other: 'http://127.0.0.1:9' } },
    status: 404,
    code: 'TARGET_NOT_FOUND',
  },
  {
    letter: 'q',
    name: 'runtime.enforcement',
    section: {
      runtime: {
        enforcement: { mode: 'remote', remote: { endpoint: 'http://127.0.0.1:9/', maxRetries: 0 } },
      },
    },
    status: 503,
    code: 'RUNTIME_UNAVAILABLE',
  },
  {
    letter: 'r',
    name: 'security',
    section: { security: { egress_allowlist: [] } },
    status: 403,
    code: 'TOOL_NOT_ALLOWED',
  },
]

/** The same policy override as an object and in YAML. */
const overrides = (policy: Record<string, unknown>) => [
  { policyObject: policy },
  { policyYaml: stringify(policy) },
]

contractSection('2.5', 'Gateway start options', ({ holds }) => {
  for (const [letter, key, wrong] of [
    ['a', 'port', '8787'],
    ['b', 'tenant', 7],
    ['c', 'targets', ['http://127.0.0.1:9']],
  ] as const) {
    holds(letter, `\`${key}\` is required, and has the type of the table.`, () => {
      refused({ [key]: undefined }, key, 'missing')
      refused({ [key]: wrong }, key, 'is given')
    })
  }
  holds('d', '`port` is the HTTP listen port.', async () => {
    await using free = await startUpstream()
    const port = Number(new URL(free.url).port)
    await free[Symbol.asyncDispose]()
    await using gateway = await startTestGateway({ targets: {}, port })
    expect(new URL(gateway.url).port).to.equal(String(port))
    expect((await fetch(`http://127.0.0.1:${port}/healthz`)).status).to.equal(200)
  })
  holds('e', '`tenant` is the default tenant.', async () => {
    await using rig = await serving({ tenant: 'umbrella' })
    expect((await rig.call()).record.tenant).to.equal('umbrella')
  })
  holds('f', '`targets` maps a server name to its base URL.', async () => {
    await using second = await startUpstream()
    await using rig = await serving((_home, files) => ({ targets: { files, second: `${second.url}/base` } }))
    await rig.gateway.invoke('/mcp/second/read@1.0.0')
    expect(rig.upstream.calls).to.have.length(0)
    expect(second.calls[0]?.path).to.equal('/base/invoke/read@1.0.0')
  })
  holds('g', '`policyYaml` is optional and overrides the configuration before startup.', async () => {
    await using rig = await serving({
      policyYaml: 'privacy: { redact_identities: true }\nsecurity: { egress_allowlist: [] }',
    })
    expect(await denialOf(rig, { args: { url: 'https://a.example/' } })).to.equal('egress_violation')
    await starts({})
    expect(refusal({ policyYaml: 'security: { egress_allowlist: 3 }' })).to.include('policyYaml')
  })
  holds('h', '`policyObject` is the same override as an object.', async () => {
    await using rig = await serving({ policyObject: { security: { egress_allowlist: [] } } })
    expect(await denialOf(rig, { args: { url: 'https://a.example/' } })).to.equal('egress_violation')
  })
  holds('i', '`sec0Dir` is optional and names the local directory.', async () => {
    await using rig = await serving((home, files) => ({
      sec0Dir: `${home}/own`,
      targets: { files },
      audit: { gatewayName: 'gw', gatewayVersion: '1.0.0', signer: { keyRef: `file://${home}/key` } },
    }))
    await rig.gateway.invoke('/mcp/files/read@1.0.0')
    expect(existsSync(join(rig.gateway.dir, '../own/audit'))).to.equal(true)
    await starts({ sec0Dir: undefined })
  })
  holds('j', '`audit` must be in the effective configuration; a policy may supply it.', async () => {
    const { audit: _audit, ...rest } = complete
    expect(refusal({}, rest)).to.include('audit')
    await using log = await openLog()
    const dir = join(log.dir, 'gateway')
    const audit = { gatewayName: 'gw', gatewayVersion: '1', dir, signer: { keyRef: `file://${log.keyFile}` } }
    const handle = startGatewayServer({ ...rest, policyObject: { audit } })
    await handle.ready()
    await handle.close()
  })
  holds('k', '`quotas` must be in the effective configuration; a policy may supply it.', async () => {
    const { quotas, ...rest } = complete
    expect(refusal({}, rest)).to.include('quotas')
    const handle = startGatewayServer({ ...rest, policyObject: { quotas } })
    await handle.ready()
    await handle.close()
  })
  holds('l', 'A policy section replaces that of the options; the others stay.', async () => {
    await using rig = await serving({
      security: { egress_allowlist: [] },
      privacy: { redact_identities: true },
      policyObject: { security: { fs_allowlist: [] } },
    })
    expect((await rig.call({ args: { url: 'https://a.example/' } })).status).to.equal(200)
    expect(await denialOf(rig, { args: { path: '/etc/passwd' } })).to.equal('fs_violation')
  })
  holds('o', 'The policy section `brokers` is mapped to the runtime configuration.', async () => {
    const inject = { header: 'x-key', format: 'raw' }
    const brokers = { files: { type: 'static', key_refs: ['env:SECRET'], inject } }
    for (const policy of overrides({ brokers })) {
      await using rig = await serving({ ...policy, env: { SECRET: 'secret' } })
      expect((await rig.call()).status).to.equal(200)
      expect(lastCall(rig).headers).to.include({ 'x-key': 'secret' })
    }
  })
  for (const { letter, name, section, status, code } of mapped) {
    holds(letter, `The policy section \`${name}\` is mapped to the runtime configuration.`, async () => {
      for (const policy of overrides(section)) {
        await using rig = await serving(policy)
        const response = await rig.gateway.invoke('/mcp/files/read@1.0.0', { url: 'https://a.example/' })
        expect(await response.json()).to.include({ error: code })
        expect(response.status).to.equal(status)
        expect(rig.upstream.calls).to.have.length(0)
      }
    })
  }
  holds('s', 'The policy section `enforcement` is mapped to the runtime configuration.', async () => {
    const security = { egress_allowlist: [] }
    await using rig = await serving({ security, policyObject: { enforcement: { mode: 'observe' } } })
    expect((await rig.call({ args: { url: 'https://a.example/' } })).status).to.equal(200)
  })
  holds('t', 'The policy section `privacy` is mapped to the runtime configuration.', async () => {
    await using issuer = await TestIssuer.start()
    await using rig = await serving({
      authn: { oidc: issuer.oidc },
      policyObject: { privacy: { redact_identities: true } },
    })
    const { record } = await rig.call({ headers: { authorization: `Bearer ${await issuer.sign()}` } })
    expect(JSON.stringify(record)).to.not.include('ada@example.com')
  })
  for (const [letter, text, policyObject] of [
    ['u', 'The policy section `ap2` is mapped to the runtime configuration.', { ap2: { mode: 'full' } }],
    ['v', 'The policy section `security.ap2` is mapped to `ap2`.', { security: { ap2: { mode: 'full' } } }],
  ] as const) {
    holds(letter, text, async () => {
      for (const policy of overrides(policyObject)) {
        await using rig = await serving(policy)
        expect((await rig.call()).body['denial_reason']).to.equal('ap2_missing')
      }
    })
  }
})

const sections: readonly [letter: string, name: string, value: unknown, wrong: unknown][] = [
  ['a', 'authn', { allowUnauthenticated: true }, { allowUnauthenticated: 'yes' }],
  ['b', 'entitlements', { default_plan: 'p', plans: { p: {} }, tenants: {} }, { plans: 1 }],
  ['d', 'privacy', { redact_identities: true }, { redact_identities: 1 }],
  ['e', 'enforcement', { mode: 'observe' }, { mode: 'off' }],
  [
    'g',
    'brokers',
    { files: { type: 'static', key_refs: ['env:PATH'], inject: { header: 'x-k', format: 'raw' } } },
    { files: {} },
  ],
  ['h', 'security', { limits: { max_payload_kb: 1 } }, { limits: { max_payload_kb: '1' } }],
  ['i', 'dedupe', { enabled: false }, { enabled: 'no' }],
  ['k', 'runtime', { enforcement: { mode: 'local' } }, { enforcement: { mode: 'near' } }],
]

contractSection('2.6', 'MiddlewareConfig', ({ holds }) => {
  for (const [letter, name, value, wrong] of sections) {
    holds(letter, `\`${name}\` is optional.`, async () => {
      await starts({ [name]: undefined })
      await starts({ [name]: value })
      expect(refusal({ [name]: wrong })).to.include(name)
    })
  }
  holds('c', '`quotas` is required.', () => refused({ quotas: undefined }, 'quotas', 'missing'))
  holds('f', '`ap2` is optional.', async () => {
    await starts({ ap2: undefined })
    await starts({ ap2: {} })
  })
  holds('j', '`audit` is required.', () => refused({ audit: undefined }, 'audit', 'missing'))
})

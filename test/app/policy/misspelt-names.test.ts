// Names in every place of a policy, each misspelt by one letter: `svc policy check` or `svc doctor`, which knows the tools,
// says something about it.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { diagnosticsOf, loadPolicyFile } from 'svc-sdk/internal/cli/policy-file'
import { unmatchedPatterns } from 'svc-sdk/internal/doctor/unmatched-patterns'
import { propertyRuns } from '../../support/property-runs.js'
import { TemporaryDir } from '../../support/temporary-dir.js'

/** No name is in another one, so that each place has one name of each. */
const names = [
  'filesystem',
  'ledger',
  'move_file',
  'read_text',
  'refund',
  'gold',
  'silver',
  'treasury',
  'private',
  'outside',
]

const listed = [
  { server: 'filesystem', version: '1.0.0', names: ['move_file', 'read_text', 'write_text'] },
  { server: 'ledger', version: '2.0.0', names: ['refund', 'list_accounts'] },
]

const lists = {
  allowlist: ['filesystem/read_text'],
  denylist: ['filesystem/move_file', 'mcp://ledger/refund@2.0.0'],
}
const limited = { ...lists, per_tool: { 'ledger/refund': { calls_per_day: 1 } } }

const policy = {
  tenant: 'acme',
  port: 0,
  targets: { filesystem: 'http://127.0.0.1:9000/mcp', ledger: 'http://127.0.0.1:9001/mcp' },
  federation: { servers: ['filesystem'], groups: { desk: ['ledger'] } },
  admin: {
    port: 0,
    tokenRef: 'env:SVC_ADMIN',
    approval_sets: { treasury: { users: ['fay@acme.example'] } },
  },
  audit: { gatewayName: 'edge', gatewayVersion: '1', signer: { keyRef: 'file://audit.key' } },
  quotas: { adapter: 'memory' },
  authn: {
    oidc: {
      issuer: 'https://id.acme.example',
      audience: 'svc',
      jwks_uri: 'https://id.acme.example/jwks',
      scopes: { servers: { filesystem: ['fs'] }, tools: { 'ledger/refund': ['pay'] } },
    },
  },
  entitlements: {
    default_plan: 'gold',
    plans: { gold: lists, silver: {} },
    tenants: {
      acme: {
        plan: 'silver',
        ...limited,
        users: { '*': limited },
        roles: { ops: limited },
        agents: { bot: limited },
      },
    },
  },
  rules: [
    { name: 'moves', tools: ['filesystem/move_file'], then: 'deny' },
    { name: 'refunds', tools: ['ledger/refund', 'move_file'], then: 'escalate', approval_set_id: 'treasury' },
    { name: 'reads', tools: ['filesystem/read_text@1.*'], then: 'report', labels: ['private'] },
  ],
  security: {
    allow_versions: { ledger: ['2.*'] },
    side_effects: {
      tools: { 'filesystem/move_file': true, 'ledger/refund': true },
      approve_high_risk: true,
      human_escalation: { approval_strategy: 'single_approver', approval_set_id: 'treasury' },
    },
  },
  enforcement: { escalate_on: ['tool_in_denylist'] },
  ap2: {
    trust: { issuers: { 'https://pay.example': { keys: [{ kty: 'OKP', crv: 'Ed25519', x: 'x' }] } } },
    tools: { allow: ['ledger/refund'], bind: { 'ledger/refund': {} } },
  },
  protections: {
    definitions: { effect: 'report' },
    schema: { tools: { 'filesystem/move_file': 'enforce' } },
    server_requests: {
      servers: { ledger: { sampling: 'deny' } },
      expect: { 'ledger/refund': ['credential'] },
    },
    flows: {
      labels: [{ label: 'private', tools: ['filesystem/read_text'] }],
      sinks: { outside: ['ledger/refund'] },
      deny_flow: ['private -> outside'],
      approval_set_id: 'treasury',
    },
  },
  brokers: {
    ledger: {
      type: 'static',
      key_refs: ['env:SVC_KEY'],
      inject: { header: 'authorization', format: 'bearer' },
    },
  },
}

type Path = readonly (string | number)[]

interface Place {
  readonly path: Path
  /** Whether the name is in the last key of the path, and not in the value. */
  readonly isKey: boolean
  readonly text: string
}

function placesIn(value: unknown, path: Path = []): Place[] {
  if (typeof value === 'string') return [{ path, isKey: false, text: value }]
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, one]) => {
    const step = Array.isArray(value) ? Number(key) : key
    const own = Array.isArray(value) ? [] : [{ path: [...path, step], isKey: true, text: key }]
    return [...own, ...placesIn(one, [...path, step])]
  })
}

/** One letter left out, doubled, swapped with the next one, or another one. */
function misspellings(name: string): string[] {
  const at = Math.floor(name.length / 2)
  const [before, letter, after] = [name.slice(0, at), name.charAt(at), name.slice(at + 1)]
  return [
    `${before}${after}`,
    `${before}${letter}${letter}${after}`,
    `${before}${after.charAt(0)}${letter}${after.slice(1)}`,
    `${before}q${after}`,
  ].filter((one) => one !== name)
}

/** All by `npm run chaos:properties`, else one, which the place chooses. */
function tried(names: readonly string[], { path }: Place): readonly string[] {
  return propertyRuns(1) > 1 ? names : names.slice(path.join('.').length % names.length).slice(0, 1)
}

function replaced(value: unknown, { path: [step, ...rest], isKey }: Place, text: string): unknown {
  if (step === undefined) return text
  if (Array.isArray(value))
    return value.map((one, i) => (i === step ? replaced(one, { path: rest, isKey, text }, text) : one))
  return Object.fromEntries(
    Object.entries(value as object).map(([key, one]) => {
      if (key !== step) return [key, one]
      return isKey && rest.length === 0
        ? [text, one]
        : [key, replaced(one, { path: rest, isKey, text }, text)]
    }),
  )
}

/** What gives a name: its misspelling makes the names of other places wrong. */
const definitions = /^(?:targets|admin\.approval_sets|entitlements\.plans|protections\.flows\.sinks)\.\w+$/

describe('a name in a policy', () => {
  const home = new TemporaryDir()
  const env = { SVC_KEY: 'a'.repeat(64), SVC_ADMIN: 'a-token-of-the-tests-0123456789' }

  after(() => home[Symbol.dispose]())

  /** Mistakes, warnings and notes of `policy check`, and what doctor says of tools. */
  async function saidOf(value: unknown): Promise<{ readonly said: string[]; readonly isRefused: boolean }> {
    const file = join(home.path, 'policy.yaml')
    writeFileSync(file, JSON.stringify(value))
    const result = await loadPolicyFile(file, env, false)
    const checked = diagnosticsOf(result).map(({ path, message }) => `${path}: ${message}`)
    if (!result.ok) return { said: checked, isRefused: true }
    const unmatched = unmatchedPatterns(listed, result.policy)
    return {
      said: [...checked, ...unmatched.map(({ path, message }) => `${path.join('.')}: ${message}`)],
      isRefused: false,
    }
  }

  it('is accepted in each place as it is spelled', async () => {
    const { said, isRefused } = await saidOf(policy)
    expect(isRefused, said.join('\n')).to.equal(false)
    expect(
      said.filter(
        (line) => names.some((name) => line.includes(name)) && !line.includes('allowlist of the tenant'),
      ),
    ).to.deep.equal([])
  })

  const places = placesIn(policy)
  for (const name of names) {
    it(`is not misspelt in silence: ${name}`, async () => {
      const before = new Set((await saidOf(policy)).said)
      const isName = new RegExp(`(?<![a-z_])${name}(?![a-z_])`)
      const having = places.filter(({ text }) => isName.test(text))
      expect(having, name).to.not.have.length(0)
      const silent: string[] = []
      for (const place of having) {
        for (const misspelt of tried(misspellings(name), place)) {
          const { said } = await saidOf(replaced(policy, place, place.text.replace(isName, misspelt)))
          const own = said.filter((line) => !before.has(line))
          // The misspelt word itself is said, or, of a definition, that others name what is not there.
          const word = definitions.test(place.path.join('.')) ? name : misspelt
          if (!own.some((line) => line.includes(word))) silent.push(`${place.path.join('.')}: ${misspelt}`)
        }
      }
      expect(silent).to.deep.equal([])
    })
  }
})

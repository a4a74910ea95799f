// A claim whose value is not in the token, or is in a form that the reader does not know, is not taken for an empty one.
import { services } from '@svc/core'
import { expect } from 'chai'
import fc from 'fast-check'
import { ofSuite } from '../../support/parts.js'
import { propertyRuns } from '../../support/property-runs.js'
import { refusal, why } from '../../support/stage-rig.js'
import { acme, reasonFor } from '../entitlements/rig.js'
import { AuthnRig, present } from './rig.js'

type Claims = Record<string, unknown>

const roles = ['contractor', 'ops', 'dev']
const tools = ['pay', 'read', 'drop']
const rolesClaims = ['roles', 'groups', 'realm_access.roles', 'https://example.com/roles'] as const

/** The claims with `value` under the name that the policy has for them. */
function placed(name: string, value: unknown): Claims {
  return name === 'realm_access.roles' ? { realm_access: { roles: value } } : { [name]: value }
}

/** The member of the token that holds the claim. */
const holderOf = (name: string) => (name === 'realm_access.roles' ? 'realm_access' : name)

interface Change {
  readonly title: string
  change(claims: Claims, name: string): Claims
}

function without(claims: Claims, name: string): Claims {
  const { [holderOf(name)]: _, ...rest } = claims
  return rest
}

const distributions: readonly Change[] = [
  {
    title: 'distributed',
    change: (claims, name) => ({
      ...without(claims, name),
      _claim_names: { [holderOf(name)]: 'src1' },
      _claim_sources: { src1: { endpoint: 'https://graph.example/x' } },
    }),
  },
  {
    title: 'distributed, and in part present',
    change: (claims, name) => ({ ...claims, _claim_names: { [holderOf(name)]: 'src1' } }),
  },
  {
    title: 'distributed by its whole name',
    change: (claims, name) => ({ ...without(claims, name), _claim_names: { [name]: 'src1' } }),
  },
  {
    title: 'distributed from sources whose names are missing',
    change: (claims, name) => ({ ...without(claims, name), _claim_sources: { src1: { JWT: 'x.y.z' } } }),
  },
  {
    title: 'distributed by names of another form',
    change: (claims, name) => ({ ...without(claims, name), _claim_names: [holderOf(name)] }),
  },
  {
    title: 'replaced by a link',
    change: (claims, name) => ({ ...without(claims, name), [`${holderOf(name)}:src1`]: { endpoint: 'x' } }),
  },
]

const overage: Change = {
  title: 'left out because there are too many groups',
  change: (claims, name) => (name === 'groups' ? { ...without(claims, name), hasgroups: true } : claims),
}

const removal: Change = { title: 'absent', change: without }

/** Forms in which issuers write a list of names, and which are none that is read. */
const forms: readonly [title: string, form: (names: readonly string[]) => unknown][] = [
  ['an object of flags', (names) => Object.fromEntries(names.map((name) => [name, true]))],
  ['objects', (names) => names.map((name) => ({ value: name }))],
  ['a list of lists', (names) => [names]],
  ['JSON text', (names) => JSON.stringify(names)],
  ['text in brackets', (names) => `[${names.join(', ')}]`],
  ['a number', (names) => names.length],
  ['a flag', () => true],
]

/** Which may be the name of a user or of a tenant. */
const separated: typeof forms = [
  ['text with commas', (names) => `${names.join(',')},`],
  ['text with semicolons', (names) => `x;${names.join(';')}`],
]

const formed = ([title, form]: (typeof forms)[number]): Change => ({
  title,
  change: (claims, name) => ({ ...claims, ...placed(name, form(namesIn(claims, name))) }),
})

const reshaped: readonly Change[] = [
  ...forms.map(formed),
  {
    title: 'below a member of another form',
    change: (claims) => ({ ...claims, realm_access: ['contractor'] }),
  },
]

function namesIn(claims: Claims, name: string): readonly string[] {
  const held = claims[holderOf(name)] as unknown
  return (name === 'realm_access.roles' ? (held as { roles: string[] }).roles : held) as string[]
}

describe('authn: a claim that cannot be used', () => {
  const rig = ofSuite(() => AuthnRig.start())

  async function reasonOf(claims: Claims, oidc: object = {}): Promise<string | undefined> {
    const response = await present(await rig.stage(oidc), await rig.issuer.sign(claims))
    if (response.outcome.kind === 'completed') return undefined
    const refused = refusal(response)
    expect(refused.code).to.equal('UNAUTHENTICATED')
    return 'denial' in refused ? refused.denial?.reason : undefined
  }

  for (const [title, claims, oidc] of [
    ['groups that are distributed', { _claim_names: { groups: 'src1' } }, { rolesClaim: 'groups' }],
    ['groups left out because there are too many', { hasgroups: true }, { rolesClaim: 'groups' }],
    ['groups replaced by a link', { 'groups:src1': { endpoint: 'x' } }, { rolesClaim: 'groups' }],
    ['a tenant that is distributed', { _claim_names: { org: 'src1' } }, {}],
    ['a tenant in a list', { org: ['acme'] }, {}],
    ['a user that is distributed', { email: undefined, _claim_names: { email: 'src1' } }, {}],
    ['an address that the issuer has not verified', { email_verified: false }, {}],
    ['an address that the issuer has not verified, as text', { email_verified: 'false' }, {}],
    ['a subject that is distributed', { sub: undefined, _claim_names: { sub: 'src1' } }, {}],
    ['a user in JSON', { email: '["ada@example.com"]' }, {}],
    ['a client that is a list', { email: undefined, azp: ['web'] }, {}],
    ['a node that is distributed', { _claim_names: { node: 'src1' } }, { nodeClaim: 'node' }],
    ['a unit that is distributed', { _claim_names: { unit: 'src1' } }, { unitClaim: 'unit' }],
    ['scopes that are distributed', { _claim_names: { scope: 'src1' } }, { scopes: { required: ['tools'] } }],
    ['roles in text with commas', { roles: 'a,b' }, {}],
    ['roles below a list', { realm_access: ['a'] }, { rolesClaim: 'realm_access.roles' }],
  ] as const) {
    it(`is refused: ${title}`, async () => {
      expect(await reasonOf(claims, oidc)).to.equal('claim_unusable')
    })
  }

  for (const [title, claims, oidc] of [
    [
      'groups are distributed and the roles are read from another claim',
      { _claim_names: { groups: 's' } },
      {},
    ],
    ['there are too many groups, which are not read', { hasgroups: true }, {}],
    [
      'an address is not verified, and the user is another claim',
      { email_verified: false, upn: 'a' },
      { userClaim: 'upn' },
    ],
    ['an address is verified, as text', { email_verified: 'true' }, {}],
    ['the only role is a distinguished name', { roles: 'CN=ops,OU=groups' }, {}],
    ['a claim that is not read has any form', { teams: { a: [1] }, _claim_names: {} }, {}],
  ] as const) {
    it(`is no reason to refuse a token if ${title}`, async () => {
      expect(await reasonOf(claims, oidc)).to.equal(undefined)
    })
  }

  it('is named with the remedy, to who calls and to who opens the console', async () => {
    const stage = await rig.stage({ rolesClaim: 'groups' })
    const token = await rig.issuer.sign({ _claim_names: { groups: 'src1' } })
    const message =
      'UNAUTHENTICATED: The token\'s "groups" claim is distributed: its values are not in the token; let the issuer put them into the token (Entra ID: only the groups assigned to the application, or app roles).'
    expect(why(await present(stage, token))).to.equal(message)
    const identify = rig.serviceOf(stage, services.identify) ?? expect.fail('authn identifies nobody')
    const error: unknown = await identify({ authorization: `Bearer ${token}` }).catch(
      (reason: unknown) => reason,
    )
    expect(error).to.include({ code: 'UNAUTHENTICATED', reason: 'claim_unusable' })
  })

  const list = fc.subarray(tools)
  const lists = fc.record({ allowlist: list, denylist: list })
  const policies = fc.record({
    tenant: list,
    roles: fc.record({ contractor: lists, ops: lists, dev: lists }),
    user: lists,
  })
  const named = (names: readonly string[]) => names.map((name) => `files/${name}`)
  type Entry = { allowlist: string[]; denylist: string[] }

  function sectionOf(
    policy: { tenant: string[]; roles: Record<string, Entry>; user: Entry },
    denies: boolean,
  ): object {
    const entry = ({ allowlist, denylist }: Entry) => ({
      allowlist: named(allowlist),
      denylist: denies ? named(denylist) : [],
    })
    return acme({
      allowlist: named(policy.tenant),
      roles: Object.fromEntries(Object.entries(policy.roles).map(([role, one]) => [role, entry(one)])),
      users: { 'ada@example.com': entry(policy.user) },
    })
  }

  it('never allows more than its value: whatever the policy, distributed or in another form; nor an absent one that only grants', async () => {
    const stages = new Map(
      await Promise.all(
        rolesClaims.map(
          async (name) => [name, await rig.stage({ rolesClaim: name, tokenCacheSize: 0 })] as const,
        ),
      ),
    )
    let [narrowed, denied] = [0, 0]
    await fc.assert(
      fc.asyncProperty(
        policies,
        fc.constantFrom(...rolesClaims),
        fc.subarray(roles, { minLength: 1 }),
        fc.oneof(
          fc.tuple(
            fc.constant('roles' as const),
            fc.constantFrom(...distributions, overage, ...reshaped, ...separated.map(formed), removal),
          ),
          fc.tuple(
            fc.constantFrom('user' as const, 'tenant' as const),
            fc.constantFrom(...distributions, ...reshaped, removal),
          ),
        ),
        async (policy, rolesClaim, held, [part, changing]) => {
          const section = sectionOf(policy, changing !== removal)
          const stage = stages.get(rolesClaim) ?? expect.fail('no stage')
          const allowed = async (claims: Claims) => {
            const { identity, outcome } = await present(stage, await rig.issuer.sign(claims))
            if (identity === undefined || outcome.kind !== 'completed') return []
            const reasons = await Promise.all(tools.map((tool) => reasonFor(section, identity, { tool })))
            return tools.filter((_, at) => reasons[at] === 'allowed')
          }
          const claims: Claims = { org: 'acme', email: 'ada@example.com', ...placed(rolesClaim, held) }
          const name = part === 'roles' ? rolesClaim : part === 'user' ? 'email' : 'org'
          const isValue = part === 'roles' || changing === removal
          const changed = changing.change(isValue ? claims : { ...claims, [name]: [claims[name]] }, name)
          const [before, after] = [await allowed(claims), await allowed(changed)]
          expect(before).to.include.members(after)
          if (after.length < before.length) narrowed++
          if (before.length < tools.length) denied++
        },
      ),
      { numRuns: propertyRuns(300) },
    )
    expect(narrowed).to.be.greaterThan(0)
    expect(denied).to.be.greaterThan(0)
  })
})

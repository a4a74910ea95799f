import type { Identity } from '@svc/core'
import { expect } from 'chai'
import fc from 'fast-check'
import { ofEachTest } from '../../support/parts.js'
import { why } from '../../support/stage-rig.js'
import { AuthnRig, present } from './rig.js'

describe('authn: claims', () => {
  const rig = ofEachTest(() => AuthnRig.start())

  async function who(claims: Record<string, unknown>, oidc: object = {}): Promise<Identity | undefined> {
    return (await present(await rig.stage(oidc), await rig.issuer.sign(claims))).identity
  }

  async function error(claims: Record<string, unknown>, oidc: object = {}): Promise<string> {
    return why(await present(await rig.stage(oidc), await rig.issuer.sign(claims)))
  }

  describe('the tenant', () => {
    it("is never the gateway's when the token has none", async () => {
      for (const org of [undefined, null]) {
        expect(await error({ org })).to.equal(
          'UNAUTHORIZED_TENANT: The token has no "org" claim, so its tenant is unknown.',
        )
      }
    })

    const cases: [string, unknown, string][] = [
      ['a list', ['acme'], 'is a list, but one string is expected'],
      ['a number', 7, 'is of type number, but a string is expected'],
      ['an object', { id: 'acme' }, 'is of type object, but a string is expected'],
      ['empty', '', 'is empty'],
      ['blank', ' \t', 'is empty'],
      ['10 KB long', 'a'.repeat(10_000), 'has 10000 characters, more than 256'],
      ['a path', '../other', 'contains a slash, which no tenant has'],
      ['a Windows path', '..\\other', 'contains a slash, which no tenant has'],
      ['on two lines', 'acme\nother', 'contains control characters'],
      ['cut by a NUL', 'acme\0', 'contains control characters'],
      ['half a character', 'acme\ud800', 'is not well-formed Unicode'],
    ]
    for (const [title, org, message] of cases) {
      it(`is refused when it is ${title}`, async () => {
        expect(await error({ org })).to.equal(`UNAUTHENTICATED: The token's "org" claim ${message}.`)
      })
    }

    it('may be any 256 characters otherwise', async () => {
      const org = 'Grüße.acme:7 {x} '.padEnd(256, 'a')
      expect((await who({ org }))?.tenant).to.equal(org)
    })

    it('comes from the claim that the policy names', async () => {
      expect((await who({ workspace: 'initech' }, { tenantClaim: 'workspace' }))?.tenant).to.equal('initech')
    })
  })

  describe('a claim name with dots', () => {
    it('is a path', async () => {
      const identity = await who({ realm_access: { roles: ['a'] } }, { rolesClaim: 'realm_access.roles' })
      expect(identity?.roles).to.deep.equal(['a'])
    })

    it('is a plain name first', async () => {
      const name = 'https://example.com/tenant'
      expect(
        (await who({ [name]: 'initech', 'https://example': { 'com/tenant': 'x' } }, { tenantClaim: name }))
          ?.tenant,
      ).to.equal('initech')
    })

    it('does not read through lists, strings or inherited properties', async () => {
      for (const [a, path, message] of [
        [
          ['x'],
          'a.0',
          /^UNAUTHENTICATED: The token's "a" claim is not an object; an object with "0" is expected/,
        ],
        ['x', 'a.length', /^UNAUTHENTICATED: The token's "a" claim is not an object/],
        [{}, 'a.constructor.name', /^UNAUTHORIZED_TENANT: The token has no/],
        [null, 'a.b', /^UNAUTHORIZED_TENANT: The token has no/],
      ] as const) {
        expect(await error({ a }, { tenantClaim: path })).to.match(message)
      }
    })
  })

  describe('roles', () => {
    for (const [title, roles, expected] of [
      ['absent', undefined, []],
      ['null', null, []],
      ['an empty list', [], []],
      ['a list', ['admin', 'Domain Admins'], ['admin', 'Domain Admins']],
      ['a string', 'admin', ['admin']],
      ['a string of several, as in scope', 'admin  reader ', ['admin', 'reader']],
      ['repeated', ['admin', 'admin'], ['admin']],
    ] as const) {
      it(`may be ${title}`, async () => {
        expect((await who({ roles }))?.roles).to.deep.equal(expected)
      })
    }

    for (const [title, roles, message] of [
      ['nested', ['admin', ['reader']], ' at index 1 is a list, but one string is expected'],
      ['a list of objects', [{ value: 'a' }], ' at index 0 is of type object, but a string is expected'],
      ['a list with a number', [7], ' at index 0 is of type number, but a string is expected'],
      ['a list with null', [null], ' at index 0 is null, but a string is expected'],
      ['a list with an empty one', ['admin', ''], ' at index 1 is empty'],
      ['an object', { admin: true }, ' is neither a list of strings nor a string, so its values are unknown'],
      ['a number', 7, ' is neither a list of strings nor a string, so its values are unknown'],
    ] as const) {
      it(`are refused when they are ${title}`, async () => {
        expect(await error({ roles })).to.equal(`UNAUTHENTICATED: The token's "roles" claim${message}.`)
      })
    }
  })

  describe('a token without a user is a service agent', () => {
    const machine = { email: undefined, sub: 'svc-7' }

    for (const [title, claims, oidc, expected] of [
      ['clientIdClaim', { appid: 'a', azp: 'b' }, { clientIdClaim: 'appid' }, 'a'],
      ['azp', { azp: 'b', client_id: 'c' }, { clientIdClaim: 'appid' }, 'b'],
      ['client_id', { client_id: 'c' }, {}, 'c'],
      ['sub', {}, {}, 'svc-7'],
    ] as const) {
      it(`named by ${title}`, async () => {
        const identity = await who({ ...machine, ...claims }, oidc)
        expect(identity)
          .to.deep.include({ clientId: expected, userId: 'svc-7' })
          .and.not.have.property('user')
      })
    }

    it('and one with a user is not', async () => {
      expect(await who({ azp: 'app' }))
        .to.include({ client: 'app' })
        .and.not.have.property('clientId')
    })
  })

  it('that name no caller are refused', async () => {
    expect(await error({ email: undefined, sub: undefined })).to.equal(
      'UNAUTHENTICATED: The token names no caller: it has no "email" claim, no subject and no client.',
    )
  })

  it('of the wrong type are refused, not ignored', async () => {
    expect(await error({ email: ['a@b'] })).to.equal(
      'UNAUTHENTICATED: The token\'s "email" claim is a list, but one string is expected.',
    )
    expect(await error({ email: '' })).to.equal('UNAUTHENTICATED: The token\'s "email" claim is empty.')
    expect(await error({ sub: 7 })).to.match(/"sub" claim is of type number/)
    expect(await error({ email: undefined, azp: {} })).to.match(/"azp" claim is of type object/)
  })

  it('name the node only through nodeClaim', async () => {
    expect((await who({ node: 'n1' }, { nodeClaim: 'node' }))?.nodeId).to.equal('n1')
    expect(await who({ node: 'n1' })).to.not.have.property('nodeId')
  })

  it('of any shape give a valid identity or a refusal', async () => {
    const stage = await rig.stage({ nodeClaim: 'node', tokenCacheSize: 0 })
    const claim = fc.oneof(fc.string(), fc.jsonValue(), fc.constant(undefined))
    await fc.assert(
      fc.asyncProperty(
        fc.record({ org: claim, email: claim, roles: claim, sub: claim, azp: claim, node: claim }),
        async (claims) => {
          const { identity, outcome } = await present(stage, await rig.issuer.sign(claims))
          if (identity === undefined || outcome.kind !== 'completed') {
            expect(identity).to.equal(undefined)
            expect(outcome).to.deep.include({ kind: 'denied' })
            return
          }
          const names = [identity.tenant, identity.user, identity.userId, identity.clientId, identity.nodeId]
          for (const name of [...names, ...identity.roles]) {
            if (name === undefined) continue
            expect(name)
              .to.be.a('string')
              .and.match(/^[^\p{Cc}]{1,256}$/u)
          }
          expect(identity.tenant).not.to.match(/[/\\]/)
        },
      ),
      { numRuns: 200 },
    )
  })
})

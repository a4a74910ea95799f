import { createHmac } from 'node:crypto'
import { chmodSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  type Call,
  identity,
  type Redactor,
  redactedError,
  redactedValue,
  redactor,
  services,
} from '@svc/core'
import { privacyPlugin } from '@svc/plugin-privacy'
import { expect } from 'chai'
import fc from 'fast-check'
import { ofEachTest } from '../../support/parts.js'
import { StageRig, send, served } from '../../support/stage-rig.js'

describe('privacy', () => {
  let state: string

  const rig = ofEachTest(() => new StageRig())
  beforeEach(() => {
    state = rig.context.stateDir
  })

  async function redactorFor(
    section: object = {},
    env: Record<string, string> = {},
  ): Promise<[Redactor, Call]> {
    const stage = await rig.start(privacyPlugin, { redact_identities: true, ...section }, { env })
    const { call, outcome } = await send(stage)
    expect(outcome).to.equal(served)
    await stage.stop?.()
    return [call.need(redactor), call]
  }

  const startError = (section: object, env: Record<string, string> = {}): Promise<string> =>
    redactorFor(section, env).then(
      () => expect.fail('started'),
      (thrown: Error) => thrown.message,
    )

  const keyFile = () => join(state, 'privacy.key')

  describe('key', () => {
    it('is created on first use with mode 600, and kept across restarts', async () => {
      const [first] = await redactorFor()
      expect(statSync(keyFile()).mode & 0o777).to.equal(0o600)
      expect(readdirSync(state)).to.deep.equal(['privacy.key'])
      const [second] = await redactorFor()
      expect(second.pseudonym('ada')).to.equal(first.pseudonym('ada'))
    })

    it('is the same for processes that start at the same time', async () => {
      const redactors = await Promise.all(Array.from({ length: 20 }, () => redactorFor()))
      expect(new Set(redactors.map(([one]) => one.pseudonym('ada'))).size).to.equal(1)
      expect(readdirSync(state)).to.deep.equal(['privacy.key'])
    })

    it('can be configured for several hosts, and is the key of HMAC-SHA-256', async () => {
      const key = 'k'.repeat(40)
      const [one] = await redactorFor({ key_ref: 'env:KEY' }, { KEY: key })
      const wanted = createHmac('sha256', key).update('ada').digest('hex')
      expect(one.pseudonym('ada')).to.equal(`hmac-sha256:${wanted}`)
      writeFileSync(join(rig.home, 'shared'), `${key}\n`)
      const [other] = await redactorFor({ key_ref: 'file://shared' })
      expect(other.pseudonym('ada')).to.equal(one.pseudonym('ada'))
      expect(() => statSync(state)).to.throw(/ENOENT/)
    })

    it('prevents the start when others may read it, it is short, or it is missing', async () => {
      mkdirSync(state)
      writeFileSync(keyFile(), 'k'.repeat(40))
      chmodSync(keyFile(), 0o640)
      expect(await startError({})).to.equal(
        `privacy: the key ${keyFile()} is readable by others: chmod 600 it`,
      )
      chmodSync(keyFile(), 0o600)
      writeFileSync(keyFile(), '')
      expect(await startError({})).to.equal(`privacy: the key file ${keyFile()} is empty`)
      expect(await startError({ key_ref: 'env:KEY' }, { KEY: 'hunter2' }))
        .to.equal('privacy: the key has 7 characters; at least 32 random ones are required')
        .and.not.include('hunter2')
      expect(await startError({ key_ref: 'env:KEY' })).to.equal(
        'privacy: the environment variable KEY is not set',
      )
    })
  })

  describe('pseudonyms', () => {
    it('depend on the person and the key', async () => {
      const [one] = await redactorFor()
      const [other] = await redactorFor({ key_ref: 'env:KEY' }, { KEY: 'k'.repeat(40) })
      expect(one.pseudonym('ada@example.com')).to.match(/^hmac-sha256:[0-9a-f]{64}$/)
      expect(one.pseudonym('ada@example.com')).to.equal(one.pseudonym('Ada@Example.COM'))
      expect(one.pseudonym('ada@example.com')).to.not.equal(one.pseudonym('bob@example.com'))
      expect(one.pseudonym('ada@example.com')).to.not.equal(other.pseudonym('ada@example.com'))
      // A subject is not an e-mail address: its case matters.
      expect(one.pseudonym('aB3')).to.not.equal(one.pseudonym('ab3'))
    })
  })

  describe('redaction of text', () => {
    let one: Redactor

    beforeEach(async () => {
      const [made, call] = await redactorFor()
      one = made
      call.set(identity, {
        tenant: 'acme',
        authenticated: true,
        user: 'ada@example.com',
        userId: 'u-17',
        clientId: 'ad',
        roles: ['analyst'],
      })
    })

    it('replaces names of the caller in every case and encoding', () => {
      const ada = one.pseudonym('ada@example.com')
      for (const [text, wanted] of [
        ['no allowlist of user "ada@example.com" allows it', `no allowlist of user "${ada}" allows it`],
        ['mcp://x/resources/user%3Aada%40example.com@1.0.0', `mcp://x/resources/user%3A${ada}@1.0.0`],
        ['ADA@EXAMPLE.COM', ada],
        ['subject u-17, client ad.', `subject ${one.pseudonym('u-17')}, client ${one.pseudonym('ad')}.`],
      ] as const) {
        expect(one.text(text)).to.equal(wanted)
      }
    })

    it('keeps words that contain a name, and versions of tools', () => {
      for (const text of ['read', 'add u-170', 'mcp://files/echo@1.0.0', 'echo@1.0.0-rc.one', 'a@b', '']) {
        expect(one.text(text)).to.equal(text)
      }
    })

    it('replaces other e-mail addresses', () => {
      const bob = one.pseudonym('bob@example.com')
      expect(one.text('to: Bob@example.com, grüße@bücher.example')).to.equal(
        `to: ${bob}, ${one.pseudonym('grüße@bücher.example')}`,
      )
      expect(one.text('bob%40example.com')).to.equal(bob)
      expect(one.text('x@1.0.0.example.com')).to.match(/^hmac-sha256:/)
    })

    it('replaces a whole address that contains a name of the caller', () => {
      for (const address of [
        'ad-a@mail.example.org',
        'a.ad@mail.example.org',
        'ad@mail.example.org',
        'u-17@ad.example',
      ]) {
        expect(one.text(`to ${address}`)).to.equal(`to ${one.pseudonym(address)}`)
      }
      expect(one.text('ad@localhost')).to.equal(`${one.pseudonym('ad')}@localhost`)
    })

    it('replaces addresses in any surrounding text', () => {
      const around = fc.string({ unit: fc.constantFrom(' ', ',', '<', '>', '"', '(', ':', '=', '\n', '/') })
      const name = fc.stringMatching(/^[a-z][a-z0-9.+-]{0,20}[a-z0-9]$/)
      fc.assert(
        fc.property(around, name, around, (before, local, after) => {
          const redacted = one.text(`${before} ${local}@mail.example.org ${after}`)
          expect(redacted).to.not.include('@mail').and.not.include('example.org')
        }),
      )
    })

    it('redacts nested values and errors with causes', () => {
      const ada = one.pseudonym('ada@example.com')
      expect(redactedValue({ 'ada@example.com': [1, null, { to: 'ada@example.com' }] }, one)).to.deep.equal({
        [ada]: [1, null, { to: ada }],
      })
      const cause = Object.assign(new Error('user:ada@example.com is locked'), { code: 'LOCKED' })
      const redacted = redactedError(new Error('failed for ada@example.com', { cause }), one) as Error
      expect(redacted.message).to.equal(`failed for ${ada}`)
      expect(redacted.stack).to.include(ada).and.not.include('ada@example.com')
      expect(redacted.cause).to.include({ message: `user:${ada} is locked`, code: 'LOCKED' })
    })

    it('leaves hostile text of 100,000 characters that has no address as it is', () => {
      for (const piece of ['a', 'a@', '%40', 'a.']) {
        const text = `a@${piece.repeat(100_000 / piece.length)}`
        expect(one.text(text)).to.equal(text)
      }
    })
  })

  it('offers the same pseudonyms outside calls', async () => {
    const disabled = rig.create(privacyPlugin, { redact_identities: false })
    expect(rig.serviceOf(disabled, services.redactor)).to.equal(undefined)
    const stage = rig.create(privacyPlugin, { redact_identities: true })
    expect(() => rig.serviceOf(stage, services.redactor)).to.throw('the privacy stage has not started')
    await stage.start?.(new AbortController().signal)
    const { call } = await send(stage)
    const offered = rig.serviceOf(stage, services.redactor)
    expect(offered?.pseudonym('ann')).to.equal(call.need(redactor).pseudonym('ann'))
    expect(offered?.text('of ann@acme.example')).to.match(/^of hmac-sha256:/)
  })

  it('does nothing if it is disabled', async () => {
    const { call } = await send(await rig.start(privacyPlugin))
    expect(call.get(redactor)).to.equal(undefined)
    expect(() => statSync(state)).to.throw(/ENOENT/)
  })
})

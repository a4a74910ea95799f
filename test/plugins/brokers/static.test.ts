import { bind, credential } from '@svc/core'
import { brokersPlugin, type CredentialSource, credentialSource } from '@svc/plugin-brokers'
import { expect } from 'chai'
import { container, type DependencyContainer } from 'tsyringe'
import { checkSection } from '../../support/check.js'
import { ofEachTest } from '../../support/parts.js'
import { send } from '../../support/stage-rig.js'
import { afterResponse, BrokersRig, held, keyFor, sendWith, why } from './rig.js'

describe('brokers: a static key', () => {
  const rig = ofEachTest(() => new BrokersRig())

  it('is put into the header, raw, as a bearer token, or into a template', async () => {
    rig.env['KEY'] = 'k$&1'
    const forms = [
      [
        { header: 'X-Api-Key', format: 'raw' },
        { header: 'x-api-key', value: 'k$&1' },
      ],
      [
        { header: 'authorization', format: 'bearer' },
        { header: 'authorization', value: 'Bearer k$&1' },
      ],
      [
        { header: 'Authorization', format: 'template', template: 'Token {{key}}; k={{key}}' },
        { header: 'authorization', value: 'Token k$&1; k=k$&1' },
      ],
    ] as const
    for (const [inject, wanted] of forms) {
      const stage = await rig.stage({ type: 'static', key_refs: ['env:KEY'], inject })
      expect(held(await sendWith(stage))).to.include(wanted)
    }
  })

  it('is read again within a second after its file changed', async () => {
    rig.write('key', 'old')
    const stage = await rig.stage({ type: 'static', key_refs: ['file://key'] })
    expect(await keyFor(stage)).to.equal('old')
    rig.write('key', 'new')
    rig.clock.advance(999)
    expect(await keyFor(stage)).to.equal('old')
    rig.clock.advance(1)
    expect(await keyFor(stage)).to.equal('new')
  })

  it('fails the call when its file is missing, and is neither sent nor shown', async () => {
    const stage = await rig.stage({ type: 'static', key_refs: ['file://key'] })
    const brokered = await sendWith(stage)
    expect(brokered.outcome).to.include({ kind: 'failed' })
    expect(brokered.credential).to.equal(undefined)
    expect(why(brokered)).to.deep.equal({
      said: 'BROKER_UNAVAILABLE: The credential for server "files" is not available: no key is usable.',
      logged: `there is no key file ${rig.home}/key`,
    })
    rig.write('key', 'k')
    expect(await keyFor(stage)).to.equal('k')
  })

  it('with a line break is refused', async () => {
    for (const key of ['a\r\nx-admin: 1', 'a\nb', 'a\0b', 'schlüssel']) {
      rig.env['KEY'] = key
      const stage = await rig.stage({ type: 'static', key_refs: ['env:KEY'] })
      expect(why(await sendWith(stage)).logged).to.equal(
        'the key contains characters that are not allowed in a header',
      )
    }
  })

  it('is read again after a 401, and the call repeated when it has changed', async () => {
    rig.write('key', 'old')
    const stage = await rig.stage({ type: 'static', key_refs: ['file://key'] })
    const first = await sendWith(stage)
    expect(await afterResponse(first, 401)).to.equal(undefined)
    rig.write('key', 'new')
    expect(await afterResponse(first, 403)).to.equal(undefined)
    expect(await afterResponse(first, 401)).to.include({ header: 'x-api-key', value: 'new' })
    expect(await keyFor(stage)).to.equal('new')
  })

  it('is not for calls to other servers', async () => {
    rig.env['KEY'] = 'k'
    const stage = await rig.stage({ type: 'static', key_refs: ['env:KEY'] })
    const { call } = await send(stage, { server: 'bills' })
    expect(call.get(credential)).to.equal(undefined)
  })

  describe('from a bound CredentialSource', () => {
    const broker = { type: 'static', key_refs: ['vault:kv/billing#key'] }
    const use = (load: CredentialSource['load']) => rig.bind(credentialSource, { load })

    it('is loaded by its reference, once for many calls', async () => {
      const asked: string[] = []
      use(async (ref) => {
        asked.push(ref)
        return 'from the vault\n'
      })
      const stage = await rig.stage(broker)
      const keys = await Promise.all([keyFor(stage), keyFor(stage)])
      expect(keys).to.deep.equal(['from the vault', 'from the vault'])
      rig.clock.advance(29_999)
      expect(await keyFor(stage)).to.equal('from the vault')
      expect(asked).to.deep.equal(['vault:kv/billing#key'])
      rig.clock.advance(1)
      await keyFor(stage)
      expect(asked).to.have.length(2)
    })

    it('is missing when the source fails or returns something else', async () => {
      for (const load of [
        () => Promise.reject(new Error('sealed')),
        async () => '',
        async () => ({ key: 'k' }) as unknown as string,
        async () => 'k'.repeat(16_385),
      ]) {
        use(load)
        expect(why(await sendWith(await rig.stage(broker))).said).to.match(/^BROKER_UNAVAILABLE/)
      }
    })
  })

  describe('is refused by the check of the policy', () => {
    const inject = { header: 'x-key', format: 'raw' }
    const check = (section: object, bindings?: DependencyContainer) =>
      checkSection(brokersPlugin, section, { host: { servers: ['files'], place: rig.context } }, bindings)

    it('if its reference is invalid or its file is missing', () => {
      const key_refs = ['file:///etc/shadow', 'vault:kv/billing', 'file://none', 'env:NONE']
      const section = { files: { type: 'vendor_key_pool', key_refs, inject } }
      const missing = `mistake brokers.files.key_refs.2: there is no key file ${rig.home}/none`
      const elsewhere = `mistake brokers.files.key_refs.0: the key file /etc/shadow is outside the directories for keys (${rig.home}, ${rig.home}/state)`
      expect(check(section)).to.deep.equal([
        elsewhere,
        'mistake brokers.files.key_refs.1: is none of env:NAME, file://PATH and command:NAME, and no CredentialSource is bound',
        missing,
      ])
      const bindings = container.createChildContainer()
      bind(bindings, credentialSource, { useValue: { load: async () => 'key' } })
      expect(check(section, bindings)).to.deep.equal([elsewhere, missing])
    })

    it('if its server is not a target', () => {
      expect(check({ flies: { type: 'static', key_refs: ['env:KEY'], inject } })).to.deep.equal([
        'mistake brokers.flies: no target is named "flies"; did you mean "files"? known: files',
      ])
    })
  })
})

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { canonicalize } from '@svc/core/json'
import { LocalDevSigner } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { ofEachTest } from '../../../../support/parts.js'
import { temporaryDir } from '../../../../support/temporary-dir.js'
import { appenderIn, DAY, envelope, signer, spansOf } from '../writer/records.js'
import { startCloud } from './cloud.js'
import { stateOf, textOf, uploading, writeState } from './rig.js'

const daily = `audit-${DAY}.ndjson`

describe('the state file of the upload', () => {
  const dir = temporaryDir()
  const cloud = ofEachTest(() => startCloud())

  const state = () => join(dir.path, '.svc-presign-state.json')

  it('has a signature over the canonical JSON of the object without it', async () => {
    const { appender } = uploading(dir.path, cloud)
    await appender.append(envelope())
    await appender.close()
    const { sig, ...signed } = JSON.parse(textOf(dir.path, '.svc-presign-state.json'))
    expect(
      signer.verify(Buffer.from(canonicalize(signed)), Buffer.from(sig.replace('ed25519:', ''), 'base64')),
    ).to.equal(true)
  })

  for (const [title, content] of [
    ['truncated to zero', ''],
    ['half written', '{"version":1,"files":{"audit-2026'],
    ['of another shape', '{"version":1,"files":{"a":{"offset":-4,"updatedAt":"x"}}}'],
    ['no object', '[]'],
  ] as const) {
    it(`${title} is moved aside and reported; without a listing, everything is uploaded again`, async () => {
      cloud.lists = false
      const first = uploading(dir.path, cloud)
      await first.appender.append(envelope())
      await first.appender.flush()
      await first.appender.append(envelope())
      await first.appender.close()
      writeFileSync(state(), content)
      const before = new Map(cloud.objects)
      const second = uploading(dir.path, cloud)
      await second.appender.append(envelope())
      await second.appender.flush()
      const again = textOf(dir.path, daily)
      expect(second.appender.status().upload?.state).to.equal('idle')
      await second.appender.append(envelope())
      await second.appender.close()
      expect(second.errors.map(({ code, message }) => [code, message.split('; ')[1]])).to.deep.equal([
        [
          'upload_state',
          'the control plane lists no objects, so all files are uploaded again from their start',
        ],
      ])
      expect(textOf(dir.path, '.svc-presign-state.json.bad-20261121T120000000Z')).to.equal(content)
      const text = textOf(dir.path, daily)
      expect(stateOf(dir.path).files[daily]?.offset).to.equal(text.length)
      for (const [key, bytes] of before) expect(cloud.objects.get(key)?.equals(bytes)).to.equal(true)
      expect([...cloud.objects.values()].map(String)).to.include(again)
    })
  }

  const other = LocalDevSigner.fromSeed(new Uint8Array(32).fill(8))
  for (const [title, by, logId] of [
    ['without a signature', undefined, undefined],
    ['signed by another key', other, undefined],
    ['of another log of the same key', signer, 'a'.repeat(32)],
  ] as const) {
    it(`that states a later offset, ${title}, keeps no record from being uploaded`, async () => {
      const first = uploading(dir.path, cloud)
      await first.appender.append(envelope())
      await first.appender.close()
      const unsent = appenderIn(dir.path, { config: { checkpoints: false } })
      await unsent.append(envelope())
      await unsent.close()
      const text = textOf(dir.path, daily)
      const files = { [daily]: { offset: text.length, updatedAt: '2026-11-21T12:00:00.000Z' } }
      if (by === undefined) writeFileSync(state(), JSON.stringify({ ...stateOf(dir.path), files }))
      else await writeState(dir.path, files, { by, logId })
      const second = uploading(dir.path, cloud)
      await second.appender.ready()
      await second.appender.close()
      expect(second.errors[0]?.message).to.include('is not signed by a key that the log trusts')
      expect(cloud.assembled(`ingest/${DAY}`, `audit-${DAY}`)).to.equal(text)
      expect(stateOf(dir.path).files[daily]?.offset).to.equal(text.length)
    })
  }

  it('is used if the retiring key has signed it', async () => {
    const first = uploading(dir.path, cloud)
    await first.appender.append(envelope())
    await first.appender.close()
    const second = uploading(dir.path, cloud, {}, { signer: other, retiringSigner: signer })
    await second.appender.append(envelope())
    await second.appender.close()
    expect(second.errors).to.deep.equal([])
    expect(cloud.objects.size).to.equal(2)
  })

  it('stops the upload if it has another version, is kept, and affects no append', async () => {
    writeFileSync(state(), '{"version":2,"anything":true}')
    const { appender, errors } = uploading(dir.path, cloud)
    await appender.append(envelope())
    await appender.close()
    expect(errors.map(({ message }) => message).join()).to.include(
      'has version 2, this release knows version 1',
    )
    expect(textOf(dir.path, '.svc-presign-state.json')).to.equal('{"version":2,"anything":true}')
    expect([cloud.requests.length, spansOf(dir.path).length]).to.deep.equal([0, 1])
  })

  it('prevents uploads if it cannot be written', async () => {
    mkdirSync(`${state()}.new`)
    const { appender, errors } = uploading(dir.path, cloud)
    await appender.append(envelope())
    await appender.close()
    expect(errors[0]?.message).to.include('.svc-presign-state.json cannot be written')
    expect(cloud.asked('upload-url')).to.deep.equal([])
  })
})

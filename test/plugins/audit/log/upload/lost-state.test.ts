import { mkdirSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { LocalDevSigner, revokeKey, rotateKey } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { ofEachTest } from '../../../../support/parts.js'
import { temporaryDir } from '../../../../support/temporary-dir.js'
import { appenderIn, DAY, envelope, signer } from '../writer/records.js'
import { type Cloud, failing, OWNER, startCloud } from './cloud.js'
import { type Rig, stateOf, textOf, uploading, writeState } from './rig.js'

const daily = `audit-${DAY}.ndjson`
const folder = `ingest/${DAY}`
const next = LocalDevSigner.fromSeed(new Uint8Array(32).fill(9))

describe('a lost upload state', () => {
  const dir = temporaryDir()
  const cloud = ofEachTest(() => startCloud())

  const state = () => join(dir.path, '.svc-presign-state.json')
  const text = () => textOf(dir.path, daily)
  const stored = () => cloud.assembled(folder, `audit-${DAY}`)
  const sent = () => cloud.asked('/store/').map(({ path }) => path.slice('/store/'.length))

  /** Uploads one record, then another. */
  async function uploadTwo(options: Parameters<typeof uploading>[3] = {}): Promise<void> {
    const { appender, errors } = uploading(dir.path, cloud, {}, options)
    for (let i = 0; i < 2; i++) {
      await appender.append(envelope({ nodeId: 'node/1', agentRef: 'run 7' }))
      await appender.flush()
    }
    await appender.close()
    expect(errors).to.deep.equal([])
    cloud.requests.length = 0
  }

  /** Opens the log again and closes it. */
  async function reopened(options: Parameters<typeof uploading>[3] = {}): Promise<Rig> {
    const rig = uploading(dir.path, cloud, {}, options)
    await rig.appender.ready()
    await rig.appender.close()
    return rig
  }

  for (const [title, lose, reason] of [
    ['missing', () => rmSync(state()), 'is missing'],
    ['damaged', () => writeFileSync(state(), '{"version":1'), 'is damaged and was moved to'],
    [
      'unsigned',
      () => writeFileSync(state(), JSON.stringify({ ...stateOf(dir.path), sig: 'AA==' })),
      'is not signed by a key that the log trusts and was moved to',
    ],
  ] as const) {
    it(`that is ${title} is restored from the listing, and only new bytes are sent`, async () => {
      await uploadTwo()
      const { files } = stateOf(dir.path)
      const before = text()
      lose()
      const { appender, errors } = uploading(dir.path, cloud)
      await appender.ready()
      await appender.flush()
      expect(sent()).to.deep.equal([])
      expect(stateOf(dir.path).files).to.deep.equal(files)
      await appender.append(envelope())
      await appender.close()
      expect(errors.map(({ code }) => code)).to.deep.equal(['upload_state'])
      expect(errors[0]?.message).to.include(reason)
      const agent = textOf(dir.path, `agents/node%2F1/${DAY}/run%207.ndjson`)
      expect(errors[0]?.message).to.include(`the store has ${before.length + agent.length} bytes`)
      expect(stored()).to.equal(text())
      expect(sent()).to.have.length(1)
    })
  }

  it('is restored for every dataset of a sealed log', async () => {
    await uploadTwo({ sealed: true })
    const { files } = stateOf(dir.path)
    const keys = [...cloud.objects.keys()]
    rmSync(state())
    const { appender, errors } = uploading(dir.path, cloud, {}, { sealed: true })
    await appender.ready()
    await appender.flush()
    expect(sent()).to.deep.equal([])
    expect(Object.keys(files)).to.include.members(['audit.journal', 'tree/0/0', daily])
    expect(stateOf(dir.path).files).to.deep.equal(files)
    await appender.close()
    expect(errors).to.have.length(1)
    expect([...cloud.objects.keys()]).to.deep.equal(keys)
  })

  it('is restored from a listing of several pages', async () => {
    cloud.pageObjects = 2
    await uploadTwo()
    for (let i = 0; i < 5; i++) {
      const rig = uploading(dir.path, cloud)
      await rig.appender.append(envelope())
      await rig.appender.close()
    }
    cloud.requests.length = 0
    rmSync(state())
    await reopened()
    expect(cloud.asked('/objects').length).to.be.above(4)
    expect(sent()).to.deep.equal([])
    expect(stateOf(dir.path).files[daily]?.offset).to.equal(text().length)
  })

  it('is restored from a page of 1,000 long keys', async () => {
    await uploadTwo()
    for (let i = 0; i < 998; i++) {
      cloud.objects.set(`${OWNER}/${folder}/${'x'.repeat(900)}-${i}`, Buffer.from('x'))
    }
    rmSync(state())
    expect((await reopened()).errors.map(({ code }) => code)).to.deep.equal(['upload_state'])
    expect(sent()).to.deep.equal([])
  })

  it('is not restored while the listing fails; nothing is sent until it succeeds', async () => {
    await uploadTwo()
    writeFileSync(state(), 'damaged')
    // The second folder fails, twice.
    let listed = 0
    cloud.intercept = ({ path }, response) => {
      if (!path.includes('/objects') || ++listed < 2 || listed > 3) return false
      response.writeHead(503).end()
      return true
    }
    const { appender, errors } = uploading(dir.path, cloud)
    await appender.ready()
    await cloud.until(() => listed === 4)
    await appender.flush()
    await appender.close()
    expect(errors.map(({ code }) => code)).to.deep.equal(['upload_failed', 'upload_failed', 'upload_state'])
    expect(sent()).to.deep.equal([])
    // The first folder is listed once.
    const prefixes = cloud.asked('/objects').map(({ body }) => JSON.parse(String(body)).prefix)
    expect(prefixes).to.deep.equal([
      `${OWNER}/agents/node%2F1/${DAY}/`,
      ...Array(3).fill(`${OWNER}/${folder}/`),
    ])
  })

  it('is restored again if the restored one cannot be written', async () => {
    await uploadTwo()
    writeFileSync(state(), 'damaged')
    mkdirSync(`${state()}.new`)
    const { appender, errors } = uploading(dir.path, cloud)
    await appender.ready()
    await appender.flush()
    rmdirSync(`${state()}.new`)
    await appender.close()
    expect(new Set(errors.slice(0, -1).map(({ code }) => code))).to.deep.equal(new Set(['upload_failed']))
    expect(errors.at(-1)?.message).to.include('is damaged and was moved to')
    expect(sent()).to.deep.equal([])
    expect(stateOf(dir.path).files[daily]?.offset).to.equal(text().length)
  })

  it('waits if the key is refused, and reports that', async () => {
    await uploadTwo()
    rmSync(state())
    cloud.intercept = failing('/api/', 403)
    const { appender, errors } = uploading(dir.path, cloud)
    await appender.append(envelope())
    await appender.flush()
    expect(appender.status()).to.have.nested.property('upload.state', 'retrying')
    expect(appender.status().upload?.pendingBytes).to.be.above(text().length)
    cloud.intercept = () => false
    await appender.close()
    expect(errors.map(({ code }) => code)).to.include('upload_rejected')
    expect(stored()).to.equal(text())
    expect(sent()).to.have.length(1)
  })

  it('counts no object of another log, none of other bytes, and none after a gap', async () => {
    await uploadTwo()
    const { appender } = uploading(dir.path, cloud)
    await appender.append(envelope())
    await appender.close()
    const [first = '', second = '', third = ''] = sortedByStart(cloud, folder)
    const bytes = cloud.objects.get(second)
    cloud.objects.delete(second)
    cloud.objects.set(second.replace(/[0-9a-f]{16}\.ndjson$/, `${'0'.repeat(16)}.ndjson`), bytes!)
    cloud.objects.set(`${OWNER}/${folder}/audit-${DAY}-0-5-${'1'.repeat(16)}.ndjson`, Buffer.from('other'))
    rmSync(state())
    cloud.requests.length = 0
    await reopened()
    const end = Number(/-0-(\d+)-/.exec(first)?.[1])
    expect(sent()).to.have.length(1)
    expect(sent()[0]).to.include(`-${end}-${text().length}-`).and.not.equal(third)
  })

  for (const status of [400, 401, 403, 404, 405, 501]) {
    it(`is replaced by a whole upload if the listing fails with ${status} and the key is accepted`, async () => {
      await uploadTwo()
      rmSync(state())
      cloud.intercept = failing('/objects', status)
      await reopened()
      expect(sent()).to.have.length(2)
      expect(stateOf(dir.path).files[daily]?.offset).to.equal(text().length)
    })
  }

  it('is not reported for a new log, and nothing is listed', async () => {
    const { appender, errors } = uploading(dir.path, cloud)
    await appender.append(envelope())
    await appender.close()
    expect(errors).to.deep.equal([])
    expect(cloud.asked('/objects')).to.deep.equal([])
  })

  describe('of a log whose key was replaced', () => {
    const sealed = { sealed: true }

    it('is not reported if the log trusts the former key', async () => {
      await uploadTwo(sealed)
      await rotateKey(dir.path, { from: signer, to: next })
      const { files } = stateOf(dir.path)
      // Without a listing, an untrusted state would cause everything to be sent again.
      cloud.lists = false
      const { errors } = await reopened({ ...sealed, signer: next })
      expect(errors).to.deep.equal([])
      expect(sent().filter((key) => key.includes('/ingest/'))).to.deep.equal([])
      expect(stateOf(dir.path).files[daily]).to.deep.equal(files[daily])
    })

    for (const [title, leave] of [
      ['retired', () => rotateKey(dir.path, { from: signer, to: next, retire: true })],
      [
        'revoked',
        async () => {
          await rotateKey(dir.path, { from: signer, to: next })
          await revokeKey(dir.path, next, { keyId: signer.keyId })
        },
      ],
    ] as const) {
      it(`is restored from the listing if the former key is ${title}, whatever the state says`, async () => {
        await uploadTwo(sealed)
        const unsent = appenderIn(dir.path)
        await unsent.append(envelope())
        await unsent.close()
        await leave()
        const { log_id: logId } = JSON.parse(textOf(dir.path, 'audit.journal').split('\n')[0] ?? '')
        const files = { [daily]: { offset: text().length, updatedAt: '2026-11-21T12:00:00.000Z' } }
        await writeState(dir.path, files, { logId })
        const { errors } = await reopened({ ...sealed, signer: next })
        expect(errors.map(({ message }) => message).join()).to.include(
          'not signed by a key that the log trusts',
        )
        expect(stored()).to.equal(text())
        expect(sent().filter((key) => key.includes('/ingest/'))).to.have.length(1)
      })
    }
  })
})

/** The keys of the objects of a folder, in the order of their ranges. */
function sortedByStart(cloud: Cloud, folder: string): string[] {
  const start = (key: string) => Number(/-(\d+)-\d+-[0-9a-f]{16}\.ndjson$/.exec(key)?.[1])
  return [...cloud.objects.keys()]
    .filter((key) => key.includes(`/${folder}/`))
    .sort((a, b) => start(a) - start(b))
}

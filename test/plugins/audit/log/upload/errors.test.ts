import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { ofEachTest } from '../../../../support/parts.js'
import { temporaryDir } from '../../../../support/temporary-dir.js'
import { DAY, envelope, fixedClock, spansOf } from '../writer/records.js'
import { failing, type Interceptor, startCloud } from './cloud.js'
import { textOf, uploading, writeState } from './rig.js'

const daily = `audit-${DAY}.ndjson`

/** Handles `times` requests whose path contains `part` with `how`. */
function meeting(part: string, times: number, how: Interceptor): Interceptor {
  let left = times
  return (request, response) => request.path.includes(part) && left-- > 0 && how(request, response)
}

describe('upload failures', () => {
  const dir = temporaryDir()
  const cloud = ofEachTest(() => startCloud())

  const reset: Interceptor = (_, response) => {
    response.socket?.resetAndDestroy()
    return true
  }
  const hang: Interceptor = () => true
  /** The store keeps the bytes, but its response never arrives. */
  const keptUnheard: Interceptor = ({ path, body }, response) => {
    cloud.objects.set(path.slice('/store/'.length), body)
    response.socket?.destroy()
    return true
  }
  /** The store keeps the bytes and says so, but only when the writer waits no longer. */
  const keptTooLate: Interceptor = ({ path, body }, response) => {
    cloud.objects.set(path.slice('/store/'.length), body)
    response.socket?.once('close', () => response.writeHead(200).end())
    return true
  }

  for (const [title, error] of [
    ['the control plane responds with 500', failing('/api/', 500, 2)],
    ['the control plane responds with 503', failing('/api/', 503, 2)],
    ['the control plane responds with 429', failing('/api/', 429, 2)],
    ['the control plane resets', meeting('/api/', 2, reset)],
    ['the control plane hangs', meeting('/api/', 1, hang)],
    ['the store responds with 500', failing('/store/', 500, 2)],
    ['the store responds with 503', failing('/store/', 503, 2)],
    ['the store responds with 409, as one of the same key is under way', failing('/store/', 409, 2)],
    ['the store resets', meeting('/store/', 2, reset)],
    ['the store hangs', meeting('/store/', 1, hang)],
    ['the store took the bytes and reset the connection', meeting('/store/', 1, (...a) => keptUnheard(...a))],
    [
      'the store responds with 200 after the writer gave up',
      meeting('/store/', 1, (...a) => keptTooLate(...a)),
    ],
    [
      'the control plane returns no JSON',
      meeting('/api/', 1, (_, response) => {
        response.end('<html>')
        return true
      }),
    ],
    [
      'the control plane responds without a url',
      meeting('/api/', 1, (_, response) => {
        response.end('{"url":"file:///etc/passwd"}')
        return true
      }),
    ],
  ] as const) {
    it(`retries, with every byte exactly once, when ${title}`, async () => {
      cloud.intercept = error
      const { appender, errors } = uploading(
        dir.path,
        cloud,
        { timeoutMs: 150 },
        { limits: { uploadIdleMs: 150 } },
      )
      await appender.append(envelope())
      await appender.flush()
      await appender.append(envelope())
      while (cloud.objects.size === 0 || appender.status().upload?.pendingBytes !== 0) await appender.flush()
      await appender.close()
      expect(errors.map(({ code }) => code)).to.include('upload_failed')
      expect(cloud.assembled(`ingest/${DAY}`, `audit-${DAY}`)).to.equal(textOf(dir.path, daily))
    })
  }

  it('retries with increasing delays', async () => {
    cloud.intercept = failing('/api/', 503, 2)
    const { appender, errors } = uploading(dir.path, cloud)
    await appender.append(envelope())
    await cloud.until(() => cloud.objects.size > 0)
    await appender.close()
    expect(errors.map(({ code }) => code)).to.deep.equal(['upload_failed', 'upload_failed'])
  })

  for (const status of [401, 403]) {
    it(`waits after ${status} from the control plane, reports it, continues to append, and tries at close`, async () => {
      cloud.intercept = failing('/api/', status)
      const { appender, errors } = uploading(dir.path, cloud, { intervalMs: 5 })
      let appended = 0
      for (let since = 0; since < 20; appended++) {
        await appender.append(envelope())
        // Intervals pass in between.
        if (appender.status().upload?.state === 'retrying') since++
      }
      expect(appender.status()).to.have.nested.property('upload.state', 'retrying')
      expect(appender.status()).to.have.nested.property('upload.error.code', 'upload_rejected')
      expect(cloud.requests).to.have.length(1)
      cloud.intercept = () => false
      await appender.close()
      expect(errors.map(({ message }) => message).join()).to.match(
        new RegExp(`^/api/svc/upload-url responded with ${status}: .*made ${status}`),
      )
      expect(spansOf(dir.path)).to.have.length(appended)
      expect(cloud.assembled(`ingest/${DAY}`, `audit-${DAY}`)).to.equal(textOf(dir.path, daily))
    })

    it(`uploads again by itself when ${status} from the control plane ends`, async () => {
      cloud.intercept = failing('/api/', status, 3)
      const { appender, errors } = uploading(dir.path, cloud, {}, { limits: { uploadRefusalMs: 2 } })
      await appender.append(envelope())
      await cloud.until(() => cloud.objects.size > 0)
      await appender.close()
      expect(errors.map(({ code }) => code)).to.deep.equal(Array(3).fill('upload_rejected'))
      expect(cloud.assembled(`ingest/${DAY}`, `audit-${DAY}`)).to.equal(textOf(dir.path, daily))
    })
  }

  it('skips only a refused file, and uploads it when it is no longer refused', async () => {
    let left = 2
    cloud.intercept = ({ path }, response) => {
      if (!path.startsWith('/store/') || !path.includes('2026-11-20') || left-- <= 0) return false
      response.statusCode = 403
      response.end()
      return true
    }
    writeFileSync(join(dir.path, 'audit-2026-11-20.ndjson'), '{"a":1}\n')
    const { appender, errors } = uploading(dir.path, cloud, {}, { limits: { uploadRefusalMs: 2 } })
    await appender.append(envelope())
    await cloud.until(() => cloud.objects.size === 2)
    await appender.close()
    expect(errors.map(({ code, scope }) => [code, scope])).to.deep.equal(
      Array(2).fill(['upload_rejected', 'file']),
    )
    expect(cloud.assembled('ingest/2026-11-20', 'audit-2026-11-20')).to.equal('{"a":1}\n')
    expect(cloud.assembled(`ingest/${DAY}`, `audit-${DAY}`)).to.equal(textOf(dir.path, daily))
  })

  it('warns while bytes wait for longer than maxDelayMs', async () => {
    cloud.intercept = failing('/api/', 503)
    const clock = fixedClock('2026-11-21T12:00:00Z')
    const { appender } = uploading(dir.path, cloud, { maxDelayMs: 60_000 }, { clock })
    await appender.append(envelope())
    clock.ms += 60_000
    expect(appender.status()).to.have.nested.property('upload.isBehind', false)
    clock.ms += 1
    const { upload, warning } = appender.status()
    expect(upload).to.include({ isBehind: true, pendingSince: Date.parse('2026-11-21T12:00:00Z') })
    expect(warning).to.match(
      /^the upload is behind: \d+ bytes wait, the oldest since 2026-11-21T12:00:00.000Z/,
    )
    cloud.intercept = () => false
    await appender.flush()
    expect(appender.status().upload).to.include({ isBehind: false, pendingBytes: 0 })
    expect(appender.status()).to.not.have.property('warning')
    await appender.close()
  })

  it("retries agents' files of every day, not only the last ones", async () => {
    mkdirSync(join(dir.path, 'agents/n/2026-11-02'), { recursive: true })
    writeFileSync(join(dir.path, 'agents/n/2026-11-02/r.ndjson'), '{"a":1}\n')
    cloud.intercept = failing('/api/', 503, 1)
    const { appender } = uploading(dir.path, cloud)
    await appender.ready()
    await cloud.until(() => cloud.objects.size > 0)
    await appender.close()
    expect(cloud.assembled('agents/n/2026-11-02', 'r')).to.equal('{"a":1}\n')
  })

  it('starts another thread after the upload thread has died', async () => {
    const mark = join(dir.path, 'mark')
    const dieOnce = `
      import { isMainThread } from 'node:worker_threads'
      import { mkdirSync } from 'node:fs'
      if (!isMainThread && mkdirSync(${JSON.stringify(mark)}, { recursive: true })) process.exit(3)`
    const { execArgv } = process
    // With the first option the others are stated to threads, which else inherit those that the process began with.
    process.execArgv = [
      ...execArgv,
      '--input-type=module',
      '--import',
      `data:text/javascript,${encodeURIComponent(dieOnce)}`,
    ]
    try {
      const { appender, errors } = uploading(dir.path, cloud)
      await appender.append(envelope())
      await cloud.until(() => cloud.objects.size > 0)
      await appender.close()
      expect(errors.map(({ code, message }) => [code, message])).to.deep.equal([
        ['upload_failed', 'the upload thread died: it ended by itself, code 3'],
      ])
    } finally {
      process.execArgv = execArgv
    }
    expect(cloud.assembled(`ingest/${DAY}`, `audit-${DAY}`)).to.equal(textOf(dir.path, daily))
  })

  it('does not follow a redirect with the key', async () => {
    cloud.intercept = ({ path }, response) => {
      if (!path.startsWith('/api/')) return false
      response.writeHead(307, { location: `${cloud.url}/elsewhere` }).end()
      return true
    }
    const { appender, errors } = uploading(dir.path, cloud)
    await appender.append(envelope())
    await appender.close()
    expect(cloud.asked('/elsewhere')).to.deep.equal([])
    expect(errors[0]?.message).to.include('responded with 307')
  })

  it('never includes the key in an error', async () => {
    cloud.intercept = failing('/api/', 401)
    const { appender, errors } = uploading(dir.path, cloud)
    await appender.append(envelope())
    await appender.close()
    expect(JSON.stringify(errors) + errors.map(({ stack }) => stack).join()).to.not.include('key-1')
  })

  for (const [title, error] of [
    ['the control plane hangs', hang],
    ['the control plane is dead', reset],
    ['the store hangs', ({ path }) => path.startsWith('/store/')],
  ] as const satisfies [string, Interceptor][]) {
    it(`delays no append, and close by at most timeoutMs, while ${title}`, async () => {
      cloud.intercept = error
      const { appender } = uploading(
        dir.path,
        cloud,
        { timeoutMs: 1_000 },
        { limits: { uploadTriggerBytes: 100 } },
      )
      await appender.append(envelope())
      await cloud.until(() => cloud.requests.length > 0)
      const start = performance.now()
      for (let i = 0; i < 50; i++) await appender.append(envelope())
      const appended = performance.now() - start
      await appender.close()
      // If each waited for the upload, they would take 50 seconds; a close without a limit would not end.
      expect(appended, '50 appends, one after another').to.be.below(10_000)
      expect(performance.now() - start - appended).to.be.below(20_000)
      expect(spansOf(dir.path)).to.have.length(51)
    })
  }

  it('repeats a started range exactly, whatever was appended since', async () => {
    const first = uploading(dir.path, cloud)
    await first.appender.append(envelope())
    await first.appender.close()
    const end = textOf(dir.path, daily).length
    const progress = { offset: 0, pending: end, updatedAt: '2026-11-21T12:00:00.000Z' }
    await writeState(dir.path, { [daily]: progress })
    const [key] = cloud.objects.keys()
    const second = uploading(dir.path, cloud)
    await second.appender.append(envelope())
    await second.appender.close()
    const keys = cloud.asked('/store/').map(({ path }) => path.slice('/store/'.length))
    expect(keys.slice(0, 2)).to.deep.equal([key, key])
    expect(cloud.assembled(`ingest/${DAY}`, `audit-${DAY}`)).to.equal(textOf(dir.path, daily))
  })

  it('stops only a file that is shorter than its uploaded bytes', async () => {
    const first = uploading(dir.path, cloud)
    await first.appender.append(envelope())
    await first.appender.close()
    writeFileSync(join(dir.path, daily), '{"cut":true}\n')
    const second = uploading(dir.path, cloud)
    await second.appender.append(envelope({ ts: '2026-11-22T10:00:00Z' }))
    await second.appender.close()
    expect(second.errors.map(({ code }) => code)).to.deep.equal(['upload_file'])
    expect(second.errors[0]?.message).to.include(`${daily} has 13 bytes and no longer holds`)
    expect([...cloud.objects.keys()].filter((key) => key.includes('/ingest/2026-11-21/'))).to.have.length(1)
    expect(cloud.assembled('ingest/2026-11-22', 'audit-2026-11-22')).to.not.equal('')
  })

  it('stops a file in which no line ends at the uploaded offset', async () => {
    const first = uploading(dir.path, cloud)
    await first.appender.append(envelope())
    await first.appender.close()
    writeFileSync(join(dir.path, daily), `${'x'.repeat(textOf(dir.path, daily).length * 2)}\n`)
    const second = uploading(dir.path, cloud)
    await second.appender.ready()
    await second.appender.close()
    expect(second.errors.map(({ code }) => code)).to.deep.equal(['upload_file'])
    expect(cloud.objects.size).to.equal(1)
  })
})

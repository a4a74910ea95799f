import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect } from 'chai'
import fc from 'fast-check'
import { endWithRunner } from '../../../../support/child-lifetime.js'
import { ofEachTest } from '../../../../support/parts.js'
import { temporaryDir } from '../../../../support/temporary-dir.js'
import { DAY, linesOf } from '../writer/records.js'
import { type CloudRequest, startCloud } from './cloud.js'
import { textOf, uploading } from './rig.js'

/** Appends and uploads all the time, until it is killed; the upload is at most 100 records behind. */
const writer = `
  import { LocalDevSigner, SvcAppender } from '@svc/plugin-audit/log'
  const [dir, apiBaseUrl] = process.argv.slice(1)
  const appender = new SvcAppender({
    config: { dir, retentionDays: 9999, presign: {
      apiBaseUrl, auditKey: 'Bearer k', tenant: 'acme', environment: 'prod', clientName: 'edge', clientVersion: '1.0.0',
      intervalMs: 1, timeoutMs: 2000,
    } },
    limits: { uploadTriggerBytes: 500, uploadRangeBytes: 3000 },
    signer: LocalDevSigner.fromSeed(new Uint8Array(32).fill(7)),
  })
  for (let i = 0; ; i++) {
    await appender.append({
      ts: '${DAY}T10:00:00Z', trace_id: 'aa', span_id: '5' + i, tenant: 'acme', server: 's@1', tool: 't@1', status: 'ok',
      latency_ms: 1, policy: { decision: 'allow', retention: 'standard' }, nodeId: 'n', agentRef: 'r' + (i % 3),
    })
    if (i % 100 === 99) await appender.flush()
  }`

describe('an uploader that is killed', () => {
  const dir = temporaryDir()
  const cloud = ofEachTest(() => startCloud())

  async function killedAt(moment: number, isMoment: (request: CloudRequest) => boolean): Promise<void> {
    const child = endWithRunner(
      spawn(process.execPath, ['--input-type=module', '-e', writer, dir.path, cloud.url], {
        cwd: new URL('.', import.meta.url),
        stdio: ['ignore', 'ignore', 'inherit'],
      }),
    )
    const exited = once(child, 'exit')
    let seen = 0
    cloud.intercept = (request) => {
      if (isMoment(request) && ++seen === moment) child.kill('SIGKILL')
      return false
    }
    await exited
    cloud.intercept = () => false
  }

  const seed = Number(process.env['SVC_SEED'] ?? 3)
  const moments = fc.sample(fc.integer({ min: 1, max: 25 }), { seed, numRuns: 2 })
  const about = `SVC_SEED=${seed}, killed at ${moments}`
  for (const [title, isMoment] of [
    ['when it asks for a URL', ({ path }: CloudRequest) => path.includes('upload-url')],
    ['while the store takes its bytes', ({ method }: CloudRequest) => method === 'PUT'],
    ['at any request', () => true],
  ] as const) {
    it(`${title} leaves every byte exactly once after another process continues`, async function () {
      this.timeout(60_000)
      for (const moment of moments) await killedAt(moment, isMoment)
      const { appender, errors } = uploading(dir.path, cloud, {}, { sealed: true })
      await appender.ready()
      await appender.flush()
      await appender.close()
      expect(errors, about).to.deep.equal([])
      expect(linesOf(dir.path, `audit-${DAY}.ndjson`)).to.not.have.length(0)
      expect(cloud.assembled(`ingest/${DAY}`, `audit-${DAY}`), about).to.equal(
        textOf(dir.path, `audit-${DAY}.ndjson`),
      )
      for (const agent of ['r0', 'r1', 'r2']) {
        expect(cloud.assembled(`agents/n/${DAY}`, agent), `${agent}, ${about}`).to.equal(
          textOf(dir.path, `agents/n/${DAY}/${agent}.ndjson`),
        )
      }
    })
  }
})

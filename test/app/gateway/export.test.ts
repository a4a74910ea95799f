import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { exportingLog, RawReceiver, receiver } from '../../plugins/audit/log/export/receivers.js'
import { envelope, linesOf, recordsOf } from '../../plugins/audit/log/writer/records.js'
import { auditIn, startTestGateway } from '../../support/gateway.js'
import { freePort } from '../../support/loopback.js'
import { attributesOf, OtlpReceiver } from '../../support/otlp-receiver.js'
import { TemporaryDir } from '../../support/temporary-dir.js'
import { startUpstream } from '../../support/upstream.js'

const MS_PER_DAY = 86_400_000

describe('a gateway with audit.export', () => {
  it('sends the record of each call, and says on /readyz which receiver does not take them', async () => {
    await using upstream = await startUpstream()
    await using collector = await OtlpReceiver.start()
    const url = `tcp://127.0.0.1:${await freePort()}`
    await using gateway = await startTestGateway((at) => ({
      targets: { files: upstream.url },
      audit: {
        ...auditIn(at),
        minFreeMb: 0,
        export: [
          { type: 'otlp', url: `${collector.url}/v1/logs` },
          { type: 'syslog', name: 'siem', url, maxDelayMs: 1 },
        ],
      },
    }))
    expect((await gateway.invoke('/mcp/files/read@1')).status).to.equal(200)
    await collector.until(() => collector.logs.length > 0)
    const [record] = gateway.records()
    expect(collector.logs[0]).to.include({ traceId: record?.trace_id, spanId: record?.span_id })
    const body = collector.logs[0]?.body.kvlistValue?.values ?? []
    expect(attributesOf({ attributes: body })).to.include({ class_uid: '6003' })
    let warnings = ''
    while (!warnings.includes('ECONNREFUSED')) {
      const response = (await (await fetch(`${gateway.url}/readyz`)).json()) as { warnings?: string[] }
      warnings = response.warnings?.join() ?? ''
    }
    expect(warnings).to.match(/the export to siem is behind: \d+ bytes wait, the oldest for \d+ s: /)
  })

  it('serves calls while a receiver takes the connection and never reads', async () => {
    await using upstream = await startUpstream()
    await using server = await RawReceiver.start()
    const connected = new Promise<void>((resolve) => {
      server.onConnection = (socket) => {
        socket.pause()
        resolve()
      }
    })
    const url = `tcp://127.0.0.1:${server.port}`
    await using gateway = await startTestGateway((at) => ({
      targets: { files: upstream.url },
      audit: { ...auditIn(at), export: [{ type: 'syslog', name: 'siem', url, timeoutMs: 600_000 }] },
    }))
    const calls = () => Promise.all(Array.from({ length: 50 }, () => gateway.invoke('/mcp/files/read@1')))
    const statuses = (await calls()).map(({ status }) => status)
    await connected
    statuses.push(...(await calls()).map(({ status }) => status))
    expect(new Set(statuses)).to.deep.equal(new Set([200]))
    expect(server.messages).to.deep.equal([])
    expect(gateway.records()).to.have.length(100)
  })

  it('records what retention removed before a receiver had it', async () => {
    using home = new TemporaryDir()
    writeFileSync(join(home.path, 'key'), Buffer.alloc(32, 7).toString('base64'), { mode: 0o600 })
    const dir = join(home.path, 'audit')
    const url = `tcp://127.0.0.1:${await freePort()}`
    const ts = new Date(Date.now() - 3 * MS_PER_DAY).toISOString()
    const log = exportingLog(dir, { receiver: receiver({ type: 'syslog', url }) })
    await log.appender.append(envelope({ ts }))
    expect((await log.attempt()).error).to.include('ECONNREFUSED')
    await log.appender.close()
    await using gateway = await startTestGateway({
      targets: {},
      audit: {
        gatewayName: 'gw',
        gatewayVersion: '1.0.0',
        dir,
        retentionDays: 1,
        checkpoints: false,
        signer: { keyRef: `file://${join(home.path, 'key')}` },
        export: [{ type: 'syslog', name: 'siem', url }],
      },
    })
    const today = `audit-${new Date().toISOString().slice(0, 10)}.ndjson`
    while (linesOf(dir, today).length === 0) await fetch(`${gateway.url}/livez`)
    const [record] = recordsOf(dir, today)
    expect(record).to.include({
      tool: 'export/gap@1',
      server: 'gw@1.0.0',
      error: 'EXPORT_GAP',
      status: 'error',
    })
    expect(record?.findings?.[0]?.detail).to.match(
      new RegExp(
        `^\\d+ bytes of ${ts.slice(0, 10)} were not exported to siem: retention removed them first$`,
      ),
    )
  })
})

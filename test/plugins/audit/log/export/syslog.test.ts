import type { Socket } from 'node:net'
import { join } from 'node:path'
import type { ReceiverSecrets } from '@svc/plugin-audit/internal/log/export/config'
import { expect } from 'chai'
import { TestAuthority } from '../../../../support/certificates.js'
import { temporaryDir } from '../../../../support/temporary-dir.js'
import { DAY } from '../writer/records.js'
import { exportingLog, RawReceiver, receiver } from './receivers.js'
import { Rsyslog, rsyslogMissing } from './rsyslog.js'

describe('the export to syslog', () => {
  const dir = temporaryDir()

  it('sends messages of RFC 5424, each with its length', async () => {
    await using server = await RawReceiver.start()
    await using log = exportingLog(dir.path, {
      receiver: receiver({ type: 'syslog', url: `tcp://127.0.0.1:${server.port}` }),
    })
    const spans = await log.append(3)
    expect(await log.attempt()).to.deep.equal({ records: 3, error: '' })
    expect(server.spans).to.deep.equal(spans)
    expect(server.messages[0]).to.match(
      new RegExp(`^<110>1 ${DAY}T10:00:00.000Z [!-~]{1,255} svc-sdk - - - \\{[ -~]+\\}$`),
    )
  })

  const misbehaviours: [name: string, error: RegExp, act: (socket: Socket) => void][] = [
    ['refuses', /reset|closed|ECONNRESET|EPIPE/, (socket) => void socket.resetAndDestroy()],
    ['never reads', /did not take the records within/, (socket) => void socket.pause()],
    ['never closes', /did not take the records within/, (socket) => void socket.resume()],
    ['closes before the end', /closed the connection/, (socket) => void socket.end()],
    [
      'resets after a part',
      /ECONNRESET|closed/,
      (socket) => void socket.once('data', () => socket.resetAndDestroy()),
    ],
    [
      'closes with bytes that it did not read',
      /ECONNRESET|closed/,
      (socket) => void socket.once('data', () => socket.destroy()),
    ],
    [
      'sends garbage and resets',
      /ECONNRESET|closed/,
      (socket) => {
        socket.write(Buffer.alloc(100_000, 'x'))
        socket.resume().once('end', () => socket.resetAndDestroy())
      },
    ],
  ]
  for (const [name, error, act] of misbehaviours) {
    it(`loses nothing with a receiver that ${name}`, async () => {
      await using server = await RawReceiver.start()
      const url = `tcp://127.0.0.1:${server.port}`
      await using log = exportingLog(dir.path, {
        receiver: receiver({ type: 'syslog', url }, { timeoutMs: 200 }),
      })
      const spans = await log.append(400)
      const good = server.onConnection
      server.onConnection = act
      const attempt = await log.attempt()
      expect(attempt.records).to.equal(0)
      expect(attempt.error).to.match(error)
      server.onConnection = good
      expect((await log.attempt()).error).to.equal('')
      expect(server.spans).to.deep.equal(spans)
    })
  }

  it('sends fewer records at once to a receiver that is slow, until they pass', async () => {
    await using server = await RawReceiver.start()
    // It takes no more than 20,000 bytes within the time limit.
    server.onConnection = (socket) => {
      let bytes = 0
      server.take(socket)
      socket.on('data', (piece: Buffer) => {
        bytes += piece.length
        if (bytes > 20_000) socket.pause()
      })
    }
    const url = `tcp://127.0.0.1:${server.port}`
    await using log = exportingLog(dir.path, {
      receiver: receiver({ type: 'syslog', url }, { timeoutMs: 100 }),
    })
    const spans = await log.append(200)
    let attempts = 0
    while ((await log.attempt()).error !== '') expect(++attempts).to.be.below(100)
    expect(server.spans).to.include.members(spans)
  })

  it('loses nothing while a receiver is down for a day', async () => {
    const server = await RawReceiver.start()
    const { port } = server
    await server[Symbol.asyncDispose]()
    await using log = exportingLog(dir.path, {
      receiver: receiver({ type: 'syslog', url: `tcp://127.0.0.1:${port}` }),
    })
    const spans = await log.append(5_000)
    log.clock.ms += 86_400_000
    spans.push(...(await log.append(5_000)))
    expect((await log.attempt()).error).to.include('ECONNREFUSED')
    const [{ isBehind, lagMs = 0, pendingBytes = 0 } = {}] = log.appender.status().exports ?? []
    expect([isBehind, lagMs >= 86_400_000, pendingBytes > 3_000_000]).to.deep.equal([true, true, true])
    expect(log.appender.status().warning).to.match(
      /the export to siem is behind: \d+ bytes wait, the oldest for \d+ s: .*ECONNREFUSED/,
    )
    await using again = await RawReceiver.start(port)
    expect((await log.attempt()).error).to.equal('')
    expect(again.spans).to.deep.equal(spans)
    expect(log.appender.status()).to.not.have.property('warning')
  })

  describe('to rsyslog, by TLS with client certificates', () => {
    let authority: TestAuthority
    let secrets: Required<Omit<ReceiverSecrets, 'authorization'>>

    before(function () {
      if (rsyslogMissing === undefined) return
      process.stdout.write(`    skipped: ${rsyslogMissing}\n`)
      this.skip()
    })
    beforeEach(() => {
      authority = new TestAuthority(dir.path)
      const { cert, key } = authority.client('gateway')
      secrets = { ca: authority.root.cert, cert, key }
    })

    const to = (rsyslog: Rsyslog, serverName?: string) =>
      receiver({ type: 'syslog', url: `tls://127.0.0.1:${rsyslog.port}`, serverName })

    it('delivers each record, over a restart of rsyslog', async () => {
      await using rsyslog = await Rsyslog.start(dir.path, authority)
      await using log = exportingLog(join(dir.path, 'log'), {
        receiver: to(rsyslog),
        secrets: async () => secrets,
      })
      const spans = await log.append(300)
      expect(await log.attempt()).to.deep.equal({ records: 300, error: '' })
      await rsyslog.stop()
      spans.push(...(await log.append(300)))
      expect((await log.attempt()).error).to.include('ECONNREFUSED')
      await rsyslog.resume()
      expect(await log.attempt()).to.deep.equal({ records: 600, error: '' })
      await rsyslog.stop()
      expect(rsyslog.lines.map(spanOf)).to.deep.equal(spans)
      expect(rsyslog.lines[0]).to.match(new RegExp(`^audit info ${DAY}T10:00:00.000Z svc-sdk \\{`))
    })

    it('sends nothing to a server of another authority or name, or without the certificate it asks for', async () => {
      await using rsyslog = await Rsyslog.start(dir.path, authority)
      const other = new TestAuthority(dir.path, 'Other Root')
      const stranger = other.client('gateway')
      let used: ReceiverSecrets = {}
      await using log = exportingLog(join(dir.path, 'log'), {
        receiver: to(rsyslog),
        secrets: async () => used,
      })
      await using named = exportingLog(join(dir.path, 'named'), {
        receiver: to(rsyslog, 'siem.example.com'),
        secrets: async () => secrets,
      })
      await log.append(1)
      await named.append(1)
      const rows: [ReceiverSecrets, RegExp][] = [
        [{}, /self-signed|unable to/],
        [{ ...secrets, ca: other.root.cert }, /unable to|self-signed/],
        [{ ca: secrets.ca }, /alert/],
        [{ ...secrets, cert: stranger.cert, key: stranger.key }, /failed: tls.* alert unknown ca/],
      ]
      for (const [row, error] of rows) {
        used = row
        const attempt = await log.attempt()
        expect(attempt.error).to.match(error)
        expect(attempt.records).to.equal(0)
      }
      expect((await named.attempt()).error).to.include('siem.example.com')
      used = secrets
      expect(await log.attempt()).to.deep.equal({ records: 1, error: '' })
      await rsyslog.stop()
      expect(rsyslog.lines).to.have.length(1)
    })
  })
})

function spanOf(line: string): string {
  return JSON.parse(line.slice(line.indexOf('{'))).span_id
}

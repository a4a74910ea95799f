import { once } from 'node:events'
import { appendFileSync, cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { publicKeyLine } from '@svc/plugin-audit/internal/log/format/verifier'
import { cosign, parseWitnessKey } from '@svc/plugin-audit/internal/log/keys/signatures'
import {
  type AppenderConfig,
  type AppenderOptions,
  resumeLog,
  rotateKey,
  verifierFromPublicKey,
} from '@svc/plugin-audit/log'
import { type RunningWitness, verifyLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { until } from '../../../../../support/redis.js'
import { temporaryDir } from '../../../../../support/temporary-dir.js'
import { append } from '../../seal/rig.js'
import { sealedLog } from '../../seal/sealed-log.js'
import { appenderIn, codeOf, DAY, fixedClock, signer } from '../../writer/records.js'
import { verifyInPython } from '../verify/matrix/python.js'
import { ORIGIN, vkeyOfLog, witnesses, witnessSigner } from './rig.js'

const HOUR_MS = 3_600_000
const keys = [verifierFromPublicKey(signer.publicKey)]
const FAILURES = 'svc_audit_cosign_failures_total'
const file = `audit-${DAY}.checkpoint`

describe('cosigning', () => {
  const dir = temporaryDir()
  const start = witnesses(dir)
  const log = () => join(dir.path, 'log')

  function open(
    by: readonly RunningWitness[],
    config: Partial<AppenderConfig> = {},
    options = {},
    at = log(),
  ) {
    const list = by.map(({ url, vkey: key }) => ({ url, key }))
    return appenderIn(at, { ...options, config: { origin: ORIGIN, witnesses: list, ...config } })
  }

  async function written(
    by: readonly RunningWitness[],
    count = 2,
    config: Partial<AppenderConfig> = {},
    options: Partial<Omit<AppenderOptions, 'config'>> = {},
    at = log(),
  ): Promise<Error[]> {
    const errors: Error[] = []
    const appender = open(by, config, { onAsyncError: (error: Error) => errors.push(error), ...options }, at)
    await append(appender, count)
    await appender.close()
    return errors
  }

  /** The report, which is that of the verifier in Python too. */
  async function verified(by: readonly RunningWitness[], quorum?: number, at = log()) {
    const given = quorum === undefined ? {} : { quorum }
    const report = await verifyLog(at, {
      keys,
      witnesses: { keys: by.map(({ vkey }) => parseWitnessKey(vkey)), ...given },
    })
    const [own, witnessKeys] = [join(dir.path, 'keys'), join(dir.path, 'witnesses')]
    writeFileSync(own, publicKeyLine(signer.publicKey))
    writeFileSync(witnessKeys, by.map(({ vkey }) => `${vkey}\n`).join(''))
    const job = { folder: at, keys: own, against: undefined, origin: undefined, allow_unsealed: false }
    const [python] = verifyInPython([{ ...job, witness_keys: witnessKeys, ...given }])
    const listed = (failures: readonly { file: string; line: number; kind: string }[] = []) =>
      failures.map(({ file, line, kind }) => [file, line, kind])
    expect(listed(python?.failures)).to.deep.equal(listed(report.failures))
    expect(python?.verdict).to.equal(report.verdict)
    return report
  }

  async function serving(response: RequestListener, test: (url: string) => Promise<void>): Promise<void> {
    const server = createServer(response).listen(0, '127.0.0.1')
    await once(server, 'listening')
    try {
      await test(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    } finally {
      server.closeAllConnections()
      server.close()
    }
  }

  it('keeps the cosignatures with the newest checkpoint, and verification requires them', async () => {
    const both = [await start('a'), await start('bb')]
    expect(await written(both)).to.deep.equal([])
    expect(await written(both, 40)).to.deep.equal([])
    const { checkpoints, size } = sealedLog(log())
    expect(checkpoints.at(-1)).to.deep.include({ size, signatures: 3 })
    const report = await verified(both)
    expect(report.verdict).to.equal('intact')
    expect(report.cosigned).to.deep.include({ size, quorum: 2, by: ['a.example/w', 'bb.example/w'] })
    expect(Math.abs(Date.now() - Date.parse(report.cosigned?.time ?? ''))).to.be.below(HOUR_MS)
    // Witnesses that the log did not name are not among them.
    expect((await verified([await start('ccc')])).failureCounts).to.deep.equal({ missing_cosignature: 1 })
  })

  it('sends a witness the newest checkpoint that the log has signed, not a forged one', async () => {
    const witness = await start('a')
    const appender = open([witness])
    const cosigned = () => appender.status().cosigning?.size
    await append(appender, 1)
    await appender.seal()
    await until(async () => cosigned() !== undefined)
    const path = join(log(), file)
    appendFileSync(
      path,
      (
        readFileSync(path, 'utf8')
          .split(/(?<=\n)(?=audit\.|\S*svc-audit)/)
          .at(-1) ?? ''
      ).replace(/\n\d+\n/, '\n999\n'),
    )
    const before = cosigned()
    await append(appender, 1)
    await appender.seal()
    await until(async () => cosigned() !== before)
    expect(appender.status().warning).to.equal(undefined)
    await appender.close()
  })

  it('asks no witness again after a restart without new records', async () => {
    const witness = await start('a')
    await written([witness])
    const before = readFileSync(join(log(), file), 'utf8')
    const appender = open([witness])
    await appender.ready()
    await appender.seal()
    expect(appender.status().cosigning?.witnesses[0]?.size).to.equal(sealedLog(log()).size)
    await appender.close()
    expect(readFileSync(join(log(), file), 'utf8')).to.equal(before)
  })

  it('does not delay a record, nor sealing, and a witness that hangs does not delay closing', async () => {
    const { vkey } = await start('a')
    await serving(
      () => undefined,
      async (url) => {
        const appender = open([], { witnesses: [{ url, key: vkey }] })
        await append(appender, 1)
        await appender.seal()
        await append(appender, 1)
        await appender.seal()
        const { appended, writable, sealing } = appender.status()
        expect([appended, writable, sealing?.error]).to.deep.equal([2, true, undefined])
        await appender.close()
        expect(appender.status().warning).to.match(/0 of 1 witnesses .* the log is closing/)
      },
    )
    expect(sealedLog(log()).sealed.get(DAY)).to.equal(2)
  })

  it('reports a witness that is down once, warns below the quorum, and catches up later', async () => {
    const up = await start('a')
    const first = await start('bb')
    const errors: Error[] = []
    const clock = fixedClock()
    const config = { witnesses: [up, first].map(({ url, vkey }) => ({ url, key: vkey })) }
    const counted: string[] = []
    const meter = { count: (name: string) => void counted.push(name) }
    const options = { clock, meter, onAsyncError: (error: Error) => errors.push(error) }
    await first.close()
    const appender = open([], config, options)
    await append(appender, 1)
    await appender.seal()
    await until(async () => appender.status().warning !== undefined)
    expect(appender.status().warning).to.match(/^1 of 2 witnesses .*bb\.example\/w: .*ECONNREFUSED/)
    expect(appender.status().cosigning?.witnesses[0]).to.have.property('size')
    expect((await verified([up, first], 1)).verdict).to.equal('intact')
    expect((await verified([up, first])).failureCounts).to.deep.equal({ missing_cosignature: 1 })
    clock.ms += 60_000
    await appender.seal()
    // Asked before the next minute begins: a witness that fails is asked again only after a while.
    await until(async () => counted.filter((name) => name === FAILURES).length === 2)
    expect(errors.map(({ message }) => message)).to.have.length(1)
    await start('bb', { port: Number(new URL(first.url).port) })
    await until(async () => {
      clock.ms += 60_000
      await appender.seal()
      return appender.status().warning === undefined
    })
    expect((await verified([up, first])).cosigned?.by).to.have.length(2)
    await appender.close()
  })

  it('accepts nothing but a cosignature of this checkpoint by this witness', async () => {
    const { vkey } = await start('a')
    const own = witnessSigner(1)
    for (const [title, text] of [
      ['of another text', cosign('text\n', 'a.example/w', own, Date.now())],
      ['nothing', ''],
      ['of another name', cosign('text\n', 'b.example/w', own, Date.now())],
    ] as const) {
      await serving(
        (_, response) => response.end(text),
        async (url) => {
          const errors = await written([], 1, { witnesses: [{ url, key: vkey }] })
          expect(errors[0]?.message, title).to.match(/a\.example\/w did not cosign: .*no valid cosignature/)
        },
      )
    }
    await serving(
      (_, response) => response.writeHead(409).end('many\n'),
      async (url) => {
        const errors = await written([], 1, { witnesses: [{ url, key: vkey }] })
        expect(errors[0]?.message).to.match(/409 without the size/)
      },
    )
    expect(sealedLog(log()).checkpoints.every(({ signatures }) => signatures === 1)).to.equal(true)
  })

  it('shows a fork: the witness does not cosign the second history', async () => {
    const [witness, other] = [await start('a'), await start('bb')]
    await written([witness])
    const copy = join(dir.path, 'copy')
    cpSync(log(), copy, { recursive: true })
    await resumeLog(copy)
    expect(await written([witness], 3)).to.deep.equal([])
    const errors = await written([witness, other], 3, {}, { clock: fixedClock(`${DAY}T13:00:00Z`) }, copy)
    expect(errors.map(({ message }) => message)).to.have.length(1)
    expect(errors[0]?.message).to.match(
      /a\.example\/w did not cosign: it responded with 422: the log has signed another root/,
    )
    // A witness that saw only the second history vouches for it.
    expect((await verified([other], 1, copy)).verdict).to.equal('intact')
    expect((await verified([witness], 1)).verdict).to.equal('intact')
  })

  it('shows a rollback: the witness has cosigned more than the log has', async () => {
    const witness = await start('a')
    await written([witness])
    const copy = join(dir.path, 'copy')
    cpSync(log(), copy, { recursive: true })
    await written([witness], 30)
    rmSync(log(), { recursive: true })
    cpSync(copy, log(), { recursive: true })
    await resumeLog(log())
    const errors = await written([witness], 1)
    expect(errors[0]?.message).to.match(
      /it has cosigned \d+ leaves of this log, which has fewer: .* rolled back/,
    )
  })

  it('continues while the key of the log changes', async () => {
    const next = witnessSigner(99)
    const witness = await start('a')
    expect(await written([witness])).to.deep.equal([])
    expect(await written([witness], 1, {}, { signer: next, retiringSigner: signer })).to.deep.equal([])
    await rotateKey(log(), { from: signer, to: next, retire: true })
    const refused = await written([witness], 1, {}, { signer: next })
    expect(refused[0]?.message).to.match(/403: no key that is trusted for this log/)
    writeFileSync(join(dir.path, 'a.logs'), `${vkeyOfLog()}\n${vkeyOfLog(ORIGIN, next)}\n`)
    expect(await written([witness], 1, {}, { signer: next })).to.deep.equal([])
    expect((await verified([witness])).verdict).to.equal('intact')
  })

  it('is refused with a configuration that cannot work', async () => {
    const [a, b] = [await start('a'), await start('bb')]
    const list = [a, b].map(({ url, vkey: key }) => ({ url, key }))
    const code = (config: Partial<AppenderConfig>) => {
      const make = async () => appenderIn(log(), { config: { witnesses: list, ...config } })
      return codeOf(make())
    }
    expect(await code({})).to.equal('resolved')
    for (const config of [
      { quorum: 0 },
      { quorum: 3 },
      { quorum: 1.5 },
      { checkpoints: false },
      { witnesses: [{ url: 'ftp://a.example', key: a.vkey }] },
      { witnesses: [{ url: 'nowhere', key: a.vkey }] },
      { witnesses: [{ url: a.url, key: vkeyOfLog() }] },
      { witnesses: [list[0], list[0]] },
    ] as Partial<AppenderConfig>[]) {
      expect(await code(config), JSON.stringify(config)).to.equal('bad_config')
    }
  })

  describe('as verification sees it', () => {
    it('may be missing from new checkpoints only', async () => {
      const witness = await start('a')
      const slow = await start('bb', { clock: { now: () => Date.now() - 2 * HOUR_MS } })
      const early = await start('ccc', { clock: { now: () => Date.now() + 2 * HOUR_MS } })
      await written([witness, slow, early])
      expect((await verified([witness])).verdict).to.equal('intact')
      expect((await verified([slow])).verdict).to.equal('intact')
      expect((await verified([early])).failures[0]?.message).to.match(
        /^no checkpoint is cosigned by 1 of the 1/,
      )
      await written([])
      const { verdict, cosigned, head } = await verified([witness])
      expect(verdict).to.equal('intact')
      expect(cosigned?.size).to.be.below(head?.size ?? 0)
      const { failures } = await verified([slow])
      expect(failures[0]).to.deep.include({ kind: 'missing_cosignature', file })
      expect(failures[0]?.message).to.match(/^after leaf \d+, since .*Z, nothing is cosigned by 1 of the 1/)
      // The quorum is as old as its oldest member.
      expect((await verified([witness, slow], 1)).verdict).to.equal('intact')
      expect((await verified([witness, slow], 2)).verdict).to.equal('not_intact')
    })

    it('is found if it is wrong', async () => {
      const witness = await start('a')
      await written([witness])
      const text = readFileSync(join(log(), file), 'utf8')
      const at = text.lastIndexOf('a.example/w ') + 'a.example/w '.length
      const bytes = Buffer.from(text.slice(at).trim(), 'base64')
      bytes[40]! ^= 1
      writeFileSync(join(log(), file), `${text.slice(0, at)}${bytes.toString('base64')}\n`)
      const { failureCounts } = await verified([witness])
      expect(failureCounts).to.deep.equal({ bad_signature: 1, missing_cosignature: 1 })
      // The writer asks again, and the witness cosigns the same checkpoint again.
      const appender = open([witness])
      await appender.ready()
      await appender.close()
      expect((await verified([witness])).cosigned?.size).to.equal(sealedLog(log()).size)
    })

    it('is refused for a log without a journal', async () => {
      const witness = await start('a')
      const appender = appenderIn(log(), { config: { checkpoints: false } })
      await append(appender, 1)
      await appender.close()
      const unsealed = (policy: object) => verifyLog(log(), { keys, allowUnsealed: true, ...policy })
      const policy = { witnesses: { keys: [parseWitnessKey(witness.vkey)] } }
      expect((await unsealed({})).verdict).to.equal('intact')
      expect((await unsealed(policy)).verdict).to.equal('not_intact')
    })
  })
})

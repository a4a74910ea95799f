import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { generateKeyFile, SvcAppender } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { auditCommand } from 'svc-sdk/internal/cli/audit'
import { show } from 'svc-sdk/internal/cli/audit-show'
import { keysCommand } from 'svc-sdk/internal/cli/keys'
import { appenderIn, DAY, envelope, signer } from '../../plugins/audit/log/writer/records.js'
import { temporaryDir } from '../../plugins/audit/temporary.js'
import { runCommand } from '../../support/command.js'
import { leashed } from '../../support/leash.js'
import { svc } from '../../support/svc.js'

const audit = (...args: string[]) => runCommand(auditCommand, args)
const file = `audit-${DAY}.ndjson`

describe('svc keys generate', () => {
  const dir = temporaryDir()

  it('prints the key id and the public key, and never the secret', async () => {
    const path = join(dir.path, 'key')
    const { out, code } = await runCommand(keysCommand, ['generate', '--out', path])
    expect(code).to.equal(0)
    expect(out)
      .to.match(/ed25519:[0-9a-f]{64}\n/)
      .and.match(/ed25519:[A-Za-z0-9+/]{43}=\n/)
    expect(out).not.to.include(readFileSync(path, 'utf8').trim())
  })

  it('exits 1 with a clear message when the file exists', async () => {
    const path = join(dir.path, 'key')
    writeFileSync(path, 'mine')
    const { err, code } = await runCommand(keysCommand, ['generate', '--out', path])
    expect([err, code]).to.deep.equal([
      `svc-sdk keys generate: ${path} exists already; a key is never overwritten\n`,
      1,
    ])
    expect(readFileSync(path, 'utf8')).to.equal('mine')
  })
})

describe('svc audit', () => {
  const dir = temporaryDir()

  beforeEach(async () => {
    const appender = appenderIn(dir.path)
    const deny = { decision: 'deny', retention: 'standard' } as const
    await appender.append(envelope({ trace_id: 'aa' }))
    await appender.append(
      envelope({ trace_id: 'bb', policy: deny, status: 'error', error: 'TOOL_NOT_ALLOWED' }),
    )
    await appender.append(envelope({ trace_id: 'cc', tool: 'esc\u001b[31m@1' }))
    await appender.close()
  })

  function tamper(): void {
    const path = join(dir.path, file)
    const lines = readFileSync(path, 'utf8').split('\n')
    writeFileSync(path, lines.map((line, i) => (i === 1 ? line.replace('acme', 'acmf') : line)).join('\n'))
  }

  describe('verify', () => {
    it('exits 0 on an intact log and says that it vouches for itself', async () => {
      const { out, err, code } = await audit('verify', dir.path)
      expect([err, code]).to.deep.equal(['', 0])
      expect(out).to.include('3 records in 1 files, 3 verified').and.include('vouches for itself')
      expect(out.endsWith('intact\n')).to.equal(true)
    })

    it('exits 1 and names each failure as FILE:LINE: kind: message', async () => {
      tamper()
      const { out, err, code } = await audit('verify', dir.path)
      expect(code).to.equal(1)
      expect(err).to.match(new RegExp(`^${file}:2: bad_signature: .+\n$`))
      expect(out).to.include('NOT INTACT')
    })

    it('exits 2 on what cannot be judged', async () => {
      const { out, code } = await audit('verify', join(dir.path, 'none'))
      expect(code).to.equal(2)
      expect(out).to.include('cannot be judged: ')
    })

    it('takes public keys from a file, and a signing key file', async () => {
      const keys = join(dir.path, 'keys')
      writeFileSync(keys, `ed25519:${Buffer.from(signer.publicKey).toString('base64')}\n`)
      const { out, code } = await audit('verify', dir.path, '--keys', keys)
      expect(code).to.equal(0)
      expect(out).not.to.include('vouches')
      const other = join(dir.path, 'other')
      generateKeyFile(other)
      expect((await audit('verify', dir.path, '--keys', other)).code).to.equal(1)
    })

    it('exits 2 when the keys cannot be read', async () => {
      const { err, code } = await audit('verify', dir.path, '--keys', join(dir.path, 'none'))
      expect(code).to.equal(2)
      expect(err).to.match(/^svc-sdk audit verify: cannot read the keys/)
    })

    it('prints the report as JSON', async () => {
      tamper()
      const { out, err, code } = await audit('verify', dir.path, '--json')
      expect([err, code]).to.deep.equal(['', 1])
      const report = JSON.parse(out)
      expect(report).to.include({ verdict: 'not_intact', records: 3, verified: 2 })
      expect(report.failures[0]).to.include({ file, line: 2, kind: 'bad_signature' })
    })

    it('checks the tree alone when told to be fast', async () => {
      const { out, code } = await audit('verify', dir.path, '--fast')
      expect(code).to.equal(0)
      expect(out)
        .to.include('signatures not checked')
        .and.include('3 records sealed by 1 checkpoints, 0 not sealed')
      tamper()
      const tampered = await audit('verify', dir.path, '--fast')
      expect(tampered.code).to.equal(1)
      expect(tampered.err).to.equal(`${file}:2: edited: not the record that was sealed as line 2\n`)
    })

    it('finds a log that was cut back with its checkpoints, against a head kept elsewhere', async () => {
      const kept = join(dir.path, 'kept')
      const checkpoints = join(dir.path, `audit-${DAY}.checkpoint`)
      writeFileSync(kept, readFileSync(checkpoints))
      writeFileSync(join(dir.path, file), `${readFileSync(join(dir.path, file), 'utf8').split('\n')[0]}\n`)
      rmSync(checkpoints)
      rmSync(join(dir.path, `audit-${DAY}.tree`))
      expect((await audit('verify', dir.path)).code).to.equal(0)
      const { err, code } = await audit('verify', dir.path, '--against', kept)
      expect([err, code]).to.deep.equal([
        `${file}:1: truncated: 3 records were sealed, 1 are present; the change is after line 0 (${kept})\n`,
        1,
      ])
    })

    it('exits 2 when the head kept elsewhere is none', async () => {
      const { err, code } = await audit('verify', dir.path, '--against', join(dir.path, file))
      expect([err, code]).to.deep.equal([
        `svc-sdk audit verify: ${join(dir.path, file)} holds no checkpoint\n`,
        2,
      ])
    })
  })

  describe('prove and check-proof', () => {
    const keyFile = () => {
      const keys = join(dir.path, 'keys')
      writeFileSync(keys, `ed25519:${Buffer.from(signer.publicKey).toString('base64')}\n`)
      return keys
    }

    it('make a proof and check it without the log', async () => {
      const proof = join(dir.path, 'b.tlog-proof')
      const made = await audit('prove', dir.path, '--trace-id', 'bb', '--out', proof)
      expect([made.code, made.out]).to.deep.equal([0, `${proof}: ${readFileSync(proof).length} bytes\n`])
      expect((await audit('prove', dir.path, '--trace-id', 'bb')).out).to.equal(readFileSync(proof, 'utf8'))
      const keys = keyFile()
      rmSync(join(dir.path, file))
      const { out, err, code } = await audit('check-proof', proof, '--keys', keys)
      expect([err, code]).to.deep.equal(['', 0])
      expect(out).to.match(
        /trace bb, span .*\nline 2 of the 3 that ed25519:[0-9a-f]{64} sealed on 2026-11-21\nproven\n$/,
      )
      expect(JSON.parse((await audit('check-proof', proof, '--keys', keys, '--json')).out)).to.include({
        valid: true,
      })
    })

    it('exit 1 and say why when there is nothing to prove, or it is not proven', async () => {
      const none = await audit('prove', dir.path, '--trace-id', 'zz')
      expect([none.err, none.code]).to.deep.equal(['svc-sdk audit prove: no record has the trace id zz\n', 1])
      const proof = join(dir.path, 'b.tlog-proof')
      await audit('prove', dir.path, '--trace-id', 'bb', '--out', proof)
      writeFileSync(proof, readFileSync(proof, 'utf8').replace('index 1', 'index 0'))
      const { out, code } = await audit('check-proof', proof, '--keys', keyFile())
      expect([out, code]).to.deep.equal([
        'NOT PROVEN: the record does not lead to the root of its checkpoint\n',
        1,
      ])
      expect((await audit('check-proof', join(dir.path, 'none'), '--keys', keyFile())).code).to.equal(1)
    })
  })

  describe('show', () => {
    it('prints the records as NDJSON, byte for byte as stored', async () => {
      expect((await audit('show', dir.path)).out).to.equal(readFileSync(join(dir.path, file), 'utf8'))
    })

    it('filters', async () => {
      const { out } = await audit('show', dir.path, '--decision', 'deny')
      expect(
        out
          .trim()
          .split('\n')
          .map((line) => JSON.parse(line).trace_id),
      ).to.deep.equal(['bb'])
    })

    it('refuses a decision or a status that there is none of, rather than find nothing', async () => {
      const refused = async (given: readonly string[]) => {
        const child = spawn(process.execPath, [svc, 'audit', 'show', dir.path, ...given], {
          stdio: ['ignore', 'inherit', 'pipe'],
        })
        let told = ''
        child.stderr.on('data', (piece) => {
          told += piece
        })
        const [code] = await once(child, 'close')
        expect(code).to.equal(1)
        expect(told).to.include('Allowed')
      }
      await Promise.all([refused(['--decision', 'maybe']), refused(['--status', 'denied'])])
    })

    it('prints a table without control characters from the log', async () => {
      const { out } = await audit('show', dir.path, '--format', 'table', '--limit', '3')
      expect(out.split('\n')).to.have.length(5)
      expect(out).to.include('TOOL_NOT_ALLOWED').and.not.include('\u001b')
    })

    it('prints OCSF and ECS events, one a line', async () => {
      const ocsf = (await audit('show', dir.path, '--format', 'ocsf')).out.trim().split('\n')
      expect(JSON.parse(ocsf[0] ?? '')).to.include({ class_uid: 6003 })
      const ecs = (await audit('show', dir.path, '--format', 'ecs')).out.trim().split('\n')
      expect(JSON.parse(ecs[0] ?? '')).to.have.property('@timestamp')
      expect([ocsf.length, ecs.length]).to.deep.equal([3, 3])
    })

    it('prints what is appended under --follow, as a growing table', async () => {
      let out = ''
      const io = {
        out: async (text: string) => {
          out += text
        },
        err: (text: string) => expect.fail(text),
        exit: () => undefined,
      }
      const rounds = [true, false]
      const more = async (): Promise<boolean> => {
        const appender = new SvcAppender({ config: { dir: dir.path, retentionDays: 9999 }, signer })
        await appender.append(envelope({ tool: 'late@1.0.0' }))
        await appender.close()
        return rounds.shift() ?? false
      }
      await show(dir.path, { format: 'table', follow: true }, io, more)
      const lines = out.trim().split('\n')
      expect(lines).to.have.length(5)
      expect(lines[0]).to.match(/^TIME /)
      expect(lines[4]).to.include('late@1.0.0')
    })

    it('goes on past a line that is no record, naming it', async () => {
      writeFileSync(join(dir.path, file), `garbage\n${readFileSync(join(dir.path, file), 'utf8')}`)
      const { out, err } = await audit('show', dir.path)
      expect(out.trim().split('\n')).to.have.length(3)
      expect(err).to.include(`${file}:1: not a record`)
    })
  })

  describe('stats', () => {
    it('prints calls, denials by reason and latencies per tool', async () => {
      const { out } = await audit('stats', dir.path)
      expect(out).to.include('3 calls: 2 allowed (0 of them failed), 1 denied')
      expect(out).to.match(/TOOL_NOT_ALLOWED +1\n/)
      expect(out).to.match(/files@1\.0\.0\/read@1\.0\.0 +2 +1 +0 +1\.50/)
    })

    it('prints JSON', async () => {
      expect(JSON.parse((await audit('stats', dir.path, '--json')).out)).to.include({ calls: 3, denied: 1 })
    })
  })

  it('ends quietly when the reader goes away', async () => {
    const appender = new SvcAppender({ config: { dir: dir.path, retentionDays: 9999 }, signer })
    await Promise.all(Array.from({ length: 3_000 }, () => appender.append(envelope())))
    await appender.close()
    const child = leashed(
      spawn(process.execPath, [svc, 'audit', 'show', dir.path], {
        stdio: ['ignore', 'pipe', 'pipe'],
      }),
    )
    let err = ''
    child.stderr.on('data', (chunk) => {
      err += chunk
    })
    child.stdout.once('data', () => child.stdout.destroy())
    const [code] = await once(child, 'close')
    expect([err, code]).to.deep.equal(['', 0])
  })
})

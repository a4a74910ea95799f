import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type AuditError, generateKeyFile, LocalDevSigner, SvcAppender } from '@svc/plugin-audit/log'
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

describe('svc keys rotate and revoke', () => {
  const dir = temporaryDir()

  it('change the keys that a log trusts', async () => {
    const log = join(dir.path, 'log')
    const [old, next] = ['old', 'next'].map((name) => join(dir.path, name)) as [string, string]
    const first = generateKeyFile(old)
    const second = generateKeyFile(next)
    const write = async (key: string) => {
      // The commands have the time of the system, and so has the log: a day between them would be a leaf of its own.
      const clock = { now: () => Date.now(), monotonic: () => performance.now() }
      const appender = appenderIn(log, { clock, signer: LocalDevSigner.fromKeyRef(`file://${key}`) })
      await appender.append(envelope({ ts: new Date().toISOString() })).finally(() => appender.close())
    }
    await write(old)
    const rotated = await runCommand(keysCommand, ['rotate', log, '--from', old, '--to', next])
    expect(rotated.out).to.equal(`the log trusts ${second.keyId} and ${first.keyId}\n`)
    await write(next)
    const revoked = await runCommand(keysCommand, [
      'revoke',
      log,
      '--key-id',
      first.keyId,
      '--sign-with',
      next,
    ])
    expect(revoked.out).to.equal(`${first.keyId} is not trusted from leaf 7 on\n`)
    expect(await write(old).catch((error: AuditError) => error.code)).to.equal('key_refused')
    const stranger = join(dir.path, 'stranger')
    generateKeyFile(stranger)
    const again = await runCommand(keysCommand, ['rotate', log, '--from', old, '--to', stranger])
    expect(again.code).to.equal(1)
    expect(again.err).to.match(/^svc-sdk keys rotate: /)
    const keys = join(dir.path, 'keys')
    writeFileSync(keys, `${first.publicKey}\n${second.publicKey}\n`)
    expect((await audit('verify', log, '--keys', keys)).code).to.equal(0)
  })
})

describe('svc audit resume and fork', () => {
  const dir = temporaryDir()

  it('say how a copied directory goes on', async () => {
    const [log, copy] = ['log', 'copy'].map((name) => join(dir.path, name)) as [string, string]
    const write = async (at: string) => {
      const appender = appenderIn(at)
      await appender.append(envelope()).finally(() => appender.close())
    }
    await write(log)
    cpSync(log, copy, { recursive: true })
    expect(await write(copy).catch((error: AuditError) => error.code)).to.equal('log_copied')
    const resumed = await audit('resume', copy)
    expect(resumed.out).to.match(/^log [0-9a-f]{32} goes on in /)
    await write(copy)
    const forked = await audit('fork', copy)
    expect(forked.out).to.match(/parent-\w+ holds svc-audit\.invalid\/\w+ with 5 leaves/)
    await write(copy)
    expect((await audit('verify', copy)).code).to.equal(0)
    const nothing = await audit('resume', join(dir.path, 'nothing'))
    expect(nothing.code).to.equal(1)
    expect(nothing.err).to.include('holds no audit.journal')
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
        .and.include('3 records sealed by 2 journal lines, 0 not sealed')
      tamper()
      const tampered = await audit('verify', dir.path, '--fast')
      expect(tampered.code).to.equal(1)
      expect(tampered.err).to.equal(`${file}:2: edited: not the record that was sealed as line 2\n`)
    })

    it('finds a log that was rolled back as a whole, against a head kept elsewhere', async () => {
      const earlier = `${dir.path}-earlier`
      cpSync(dir.path, earlier, { recursive: true })
      const appender = appenderIn(dir.path)
      await appender.append(envelope({ trace_id: 'dd' }))
      await appender.close()
      const kept = join(dir.path, `audit-${DAY}.checkpoint`)
      try {
        const alone = await audit('verify', earlier)
        expect(alone.code).to.equal(0)
        expect(alone.out)
          .to.match(/^log svc-audit\.invalid\//)
          .and.include('not detectable without --origin')
        expect(alone.out).to.include('not detectable without a head kept elsewhere')
        const { out, err, code } = await audit('verify', earlier, '--against', kept)
        expect(code).to.equal(1)
        expect(err).to.equal(`audit.journal:0: rolled_back: ${kept} covers 7 leaves, the log has 5\n`)
        expect(out).to.include('not detectable: what the holder of a key rewrote')
      } finally {
        rmSync(earlier, { recursive: true })
      }
    })

    it('exits 1 for a log of another origin', async () => {
      const { err, code } = await audit('verify', dir.path, '--origin', 'audit.example/other')
      expect([err.split(':')[2], code]).to.deep.equal([' wrong_origin', 1])
    })

    it('compares the files of agents with the daily log', async () => {
      const appender = appenderIn(dir.path)
      for (const ref of ['one', 'two']) await appender.append(envelope({ nodeId: 'n', agentRef: ref }))
      await appender.close()
      expect((await audit('verify', dir.path, '--agents')).code).to.equal(0)
      const path = join(dir.path, 'agents', 'n', DAY, 'two.ndjson')
      writeFileSync(path, readFileSync(path, 'utf8').replace('acme', 'evil'))
      const { err, code } = await audit('verify', dir.path, '--agents')
      expect(code).to.equal(1)
      expect(err).to.match(/^agents\/n\/.*\/two\.ndjson:1: agent_file: /)
      expect((await audit('verify', dir.path)).code).to.equal(0)
    })

    it('shows progress with the time that is left on a terminal, also with --json', async () => {
      const shown: string[] = []
      const big = appenderIn(dir.path)
      const text = 'x'.repeat(200_000)
      for (let i = 0; i < 60; i++) await big.append(envelope({ agentVariables: { text } }))
      await big.close()
      const io = {
        out: async () => undefined,
        err: () => undefined,
        exit: () => undefined,
        progress: (line: string) => void shown.push(line),
      }
      await auditCommand(io).parseAsync(['verify', dir.path, '--json'], { from: 'user' })
      expect(shown).to.not.have.length(0)
      for (const line of shown) expect(line).to.match(/ % {2}\d+ MB {2}\d+ MB\/s {2}(\d+:)?\d+:\d\d left$/)
    })

    it('exits 2 if the checkpoint kept elsewhere cannot be read', async () => {
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
        /trace bb, span .*\nleaf 2 of the 5 of svc-audit\.invalid\/[0-9a-f]{32}, sealed by ed25519:[0-9a-f]{64}\nproven\n$/,
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
      writeFileSync(proof, readFileSync(proof, 'utf8').replace('index 2', 'index 1'))
      const { out, code } = await audit('check-proof', proof, '--keys', keyFile())
      expect([out, code]).to.deep.equal([
        'NOT PROVEN: the record does not lead to the root of its checkpoint\n',
        1,
      ])
      expect((await audit('check-proof', join(dir.path, 'none'), '--keys', keyFile())).code).to.equal(2)
    })

    it('do not take the signature of a key at leaves for which it is not trusted', async () => {
      const proof = join(dir.path, 'b.tlog-proof')
      const keys = join(dir.path, 'ranged.pub')
      await audit('prove', dir.path, '--trace-id', 'bb', '--out', proof)
      const written = await audit('verify', dir.path, '--keys', keyFile(), '--write-keys', keys)
      expect(written.code).to.equal(0)
      const [comment, line = ''] = readFileSync(keys, 'utf8').split('\n')
      expect(comment).to.match(/^# keys of svc-audit\.invalid\/[0-9a-f]{32}, .* as 5 leaves state$/)
      expect(line).to.match(/^ed25519:\S{44} 0$/)
      for (const [leaves, code, why] of [
        ['0', 0, 'proven'],
        ['0 5', 0, 'proven'],
        ['0 4', 1, 'its checkpoint of 5 leaves is signed by a key that is not trusted for them'],
        ['3 9', 1, 'the record is at fault: '],
        ['4 4', 2, ''],
        ['0 4 5', 2, ''],
        ['01', 2, ''],
      ] as const) {
        writeFileSync(keys, `${line.replace(/ 0$/, '')} ${leaves}\n`)
        const checked = await audit('check-proof', proof, '--keys', keys)
        expect([leaves, checked.code]).to.deep.equal([leaves, code])
        expect(checked.out).to.include(why)
      }
    })

    it('prove all records that match in one file', async () => {
      const proof = join(dir.path, 'all.tlog-proof')
      await audit('prove', dir.path, '--all', '--decision', 'allow', '--out', proof)
      const { out, code } = await audit('check-proof', proof, '--keys', keyFile())
      expect(code).to.equal(0)
      expect(out).to.include('2 of 2 records proven\n')
    })
  })

  describe('consistency and vkey', () => {
    it('show that the log was only appended to between two checkpoints', async () => {
      const path = join(dir.path, `audit-${DAY}.checkpoint`)
      const older = join(dir.path, 'older')
      const newer = join(dir.path, 'newer')
      writeFileSync(older, readFileSync(path))
      const appender = appenderIn(dir.path)
      await appender.append(envelope({ trace_id: 'dd' }))
      await appender.close()
      writeFileSync(
        newer,
        readFileSync(path, 'utf8')
          .split(/(?<=\n)(?=svc-audit)/)
          .at(-1) ?? '',
      )
      writeFileSync(
        older,
        readFileSync(older, 'utf8')
          .split(/(?<=\n)(?=svc-audit)/)
          .at(-1) ?? '',
      )
      const keys = join(dir.path, 'public-keys')
      const options = ['--dir', dir.path, '--keys', keys]
      const { out, code } = await audit('consistency', older, newer, ...options)
      expect(code).to.equal(0)
      expect(out).to.match(/: 5 leaves are a prefix of 7 \(\d+ hashes\)\nconsistent\n$/)
      const other = await audit('consistency', newer, older, ...options)
      expect([other.code, other.out]).to.deep.equal([
        1,
        'NOT CONSISTENT: the older one has 7 leaves, the newer 5\n',
      ])
      const [key] = readFileSync(keys, 'utf8').split('\n')
      for (const [leaves, why] of [
        ['0 7', undefined],
        ['0 6', 'the newer checkpoint of 7 leaves is signed by a key that is not trusted for them'],
        ['6', 'the older checkpoint of 5 leaves is signed by a key that is not trusted for them'],
      ] as const) {
        writeFileSync(join(dir.path, 'ranged.pub'), `${key} ${leaves}\n`)
        const ranged = await audit(
          'consistency',
          older,
          newer,
          ...options.slice(0, 3),
          join(dir.path, 'ranged.pub'),
        )
        expect([leaves, ranged.code, ranged.out]).to.deep.equal(
          why === undefined ? [leaves, 0, out] : [leaves, 1, `NOT CONSISTENT: ${why}\n`],
        )
      }
    })

    it('prints a verifier key for other tools', async () => {
      const { out, code } = await audit('vkey', dir.path)
      expect(code).to.equal(0)
      expect(out).to.match(/^svc-audit\.invalid\/[0-9a-f]{32}\+[0-9a-f]{8}\+[A-Za-z0-9+/]{44}\n$/)
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

    it('filters by principal, error, span, escalation and policy, and takes the last ones', async () => {
      const appender = appenderIn(dir.path)
      const own = {
        trace_id: 'dd',
        span_id: '50',
        principal: { user: 'ada', user_id: '7', client_id: 'tool' },
        escalation_id: 'esc-1',
        policy_sha256: 'abcdef0123',
      }
      await appender.append(envelope(own))
      await appender.append(envelope({ trace_id: 'ee', principal: { user: 'bob' } }))
      await appender.close()
      const traces = async (...args: string[]) =>
        (await audit('show', dir.path, ...args)).out
          .split('\n')
          .slice(0, -1)
          .map((line) => JSON.parse(line).trace_id)
      for (const args of [
        ['--principal', 'ada'],
        ['--principal', '7'],
        ['--principal', 'tool'],
        ['--span-id', '50'],
        ['--escalation', 'esc-1'],
        ['--policy', 'abcdef'],
      ]) {
        expect(await traces(...args), args.join(' ')).to.deep.equal(['dd'])
      }
      expect(await traces('--error', 'TOOL_NOT_ALLOWED')).to.deep.equal(['bb'])
      expect(await traces('--last', '2')).to.deep.equal(['dd', 'ee'])
      expect(await traces('--last', '9')).to.deep.equal(['aa', 'bb', 'cc', 'dd', 'ee'])
      expect(await traces('--last', '1', '--tool', 'read')).to.deep.equal(['ee'])
    })

    it('marks records whose signature fails', async () => {
      tamper()
      const { out, err } = await audit('show', dir.path, '--format', 'table')
      expect(err).to.equal(`${file}:2: bad_signature (npx svc-sdk audit verify says more)\n`)
      expect(out.split('\n').filter((line) => line.includes('BAD_SIGNATURE'))).to.have.length(1)
      expect(out.split('\n')[2]).to.include('BAD_SIGNATURE TOOL_NOT_ALLOWED')
    })

    it('refuses an unknown decision or status instead of finding nothing', async () => {
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

    it('prints appended records under --follow, as a growing table', async () => {
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

    it('names a line that is not a record, and continues', async () => {
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

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { SvcAppender } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { type ShowOptions, show } from 'svc-sdk/internal/cli/audit-show'
import { appenderIn, DAY, envelope, signer } from '../../plugins/audit/log/writer/records.js'
import { endWithRunner } from '../../support/child-lifetime.js'
import { svc } from '../../support/svc.js'

import { audit, file, threeRecords } from './audit-rig.js'

describe('svc audit', () => {
  const { dir, tamper } = threeRecords()

  describe('show', () => {
    it('prints the records as NDJSON, byte for byte as stored', async () => {
      expect((await audit('show', dir.path)).out).to.equal(readFileSync(join(dir.path, file), 'utf8'))
    })

    it('filters by decision', async () => {
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
        ['--policy-sha256', 'abcdef'],
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
        expect(code).to.equal(2)
        expect(told).to.include('accepted: ')
      }
      await Promise.all([refused(['--decision', 'maybe']), refused(['--status', 'denied'])])
    })

    it('prints a table without control characters from the log', async () => {
      const { out } = await audit('show', dir.path, '--format', 'table', '--limit', '3')
      expect(out.split('\n')).to.have.length(5)
      expect(out).to.include('TOOL_NOT_ALLOWED').and.not.include('\u001b')
    })

    it('prints calls in a table, and counts the rest, which --all prints', async () => {
      const appender = appenderIn(dir.path)
      const own = { server: 'edge@1.0.0', gateway: 'edge@1.0.0' }
      await appender.append(envelope({ ...own, tool: 'admin/read_policy@1', trace_id: 'e0' }))
      await appender.append(envelope({ mcp_method: 'tools/list', trace_id: 'e1' }))
      await appender.append(envelope({ mcp_method: 'tools/list', status: 'error', trace_id: 'e2' }))
      await appender.close()
      const rows = async (...args: string[]) =>
        (await audit('show', dir.path, '--format', 'table', ...args)).out.trim().split('\n').slice(1)
      const calls = await rows()
      const left = 'left out: 1 events of the gateway, 1 requests of the protocol (--all prints them)'
      expect(calls.map((row) => row.split(' ').at(-1))).to.deep.equal(['aa', 'bb', 'cc', 'e2', 'them)'])
      expect(calls.at(-1)).to.equal(left)
      expect(await rows('--last', '2')).to.have.length(3)
      expect(await rows('--all')).to.have.length(6)
      expect((await audit('show', dir.path, '--explain')).out)
        .to.include(left)
        .and.not.include('trace e0')
      expect((await audit('show', dir.path)).out.trim().split('\n')).to.have.length(6)
    })

    it('says "would deny" of a call that the policy only observes', async () => {
      const appender = appenderIn(dir.path)
      await appender.append(
        envelope({ findings: [{ stage: 'security', reason: 'fs_violation', effect: 'would_deny' }] }),
      )
      await appender.close()
      const { out } = await audit('show', dir.path, '--format', 'table', '--last', '1')
      expect(out).to.match(/ would deny +ok .* fs_violation /)
    })

    it('prints OCSF and ECS events, one a line', async () => {
      const ocsf = (await audit('show', dir.path, '--format', 'ocsf')).out.trim().split('\n')
      expect(JSON.parse(ocsf[0] ?? '')).to.include({ class_uid: 6003 })
      const ecs = (await audit('show', dir.path, '--format', 'ecs')).out.trim().split('\n')
      expect(JSON.parse(ecs[0] ?? '')).to.have.property('@timestamp')
      expect([ocsf.length, ecs.length]).to.deep.equal([3, 3])
    })

    /** Prints what is sealed by then, and after each append. */
    async function followed(options: ShowOptions, ...appended: string[]) {
      const seen = { out: '', err: '', code: 0 }
      const io = {
        out: async (text: string) => {
          seen.out += text
        },
        err: (text: string) => {
          seen.err += text
        },
        exit: (code: number) => {
          seen.code = code
        },
      }
      const more = async (): Promise<boolean> => {
        const tool = appended.shift()
        if (tool === undefined) return false
        const appender = appenderIn(dir.path)
        await appender.append(envelope({ tool }))
        await appender.close()
        return true
      }
      await show(dir.path, { ...options, follow: true }, io, { more, isEnded: false })
      return { ...seen, lines: seen.out.trim().split('\n') }
    }

    it('prints each record once under --follow, when it is sealed, as a growing table', async () => {
      const { lines, err, code } = await followed({ format: 'table' }, 'late@1.0.0')
      expect(lines).to.have.length(5)
      expect(lines[0]).to.match(/^TIME /)
      expect(lines[4]).to.include('late@1.0.0')
      expect([err, code]).to.deep.equal(['', 0])
    })

    for (const [format, marksOf] of [
      ['json', (line) => line],
      ['ecs', (line) => line],
      ['ocsf', ({ unmapped }) => unmapped],
    ] as ['json' | 'ecs' | 'ocsf', (line: Record<string, object>) => object][]) {
      it(`prints under --follow the leaf and the check of each record as ${format}, and resumes at a leaf`, async () => {
        const marks = async (options: ShowOptions) =>
          (await followed({ format, ...options })).lines.map((line) => marksOf(JSON.parse(line)))
        const all = await marks({})
        for (const [at, leaf] of [1, 2, 3].entries()) expect(all[at]).to.include({ leaf, verified: true })
        expect(all).to.have.length(3)
        expect(await marks({ from: 3 })).to.deep.equal(all.slice(2))
      })
    }

    it('prints a record whose signature fails with "verified": false, and exits with 1', async () => {
      tamper()
      const { lines, err, code } = await followed({})
      expect(lines.map((line) => JSON.parse(line).verified)).to.deep.equal([true, false, true])
      expect(err).to.equal(`${DAY}: leaf 2: bad_signature (npx svc-sdk audit verify says more)\n`)
      expect(code).to.equal(1)
      const whole = await audit('show', dir.path)
      expect(whole.out.split('\n').map((line) => line.includes('"verified":false'))).to.deep.equal([
        false,
        true,
        false,
        false,
      ])
      expect(whole.code).to.equal(1)
    })

    it('prints a sealed line that is not a record as its leaf, and exits with 1 if records are missing', async () => {
      const lines = readFileSync(join(dir.path, file), 'utf8').split('\n')
      const [first = '', second = ''] = lines
      writeFileSync(join(dir.path, file), `${'-'.repeat(first.length)}\n${second}\n`)
      const seen = await followed({})
      expect(seen.lines[0]).to.equal('{"leaf":1,"verified":false,"failure":"not_json"}')
      expect(seen.err).to.include(`${DAY}: sealed records from leaf 3 on are missing`)
      expect(seen.code).to.equal(1)
      rmSync(join(dir.path, file))
      expect(await followed({})).to.include({ out: '', code: 1 })
    })

    it('ends --follow by SIGTERM with the status of what it printed', async () => {
      tamper()
      const args = [svc, 'audit', 'show', dir.path, '--follow', '--from', '2']
      const child = endWithRunner(spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'ignore'] }))
      let out = ''
      for await (const piece of child.stdout) {
        out += piece
        if (out.split('\n').length === 3) child.kill('SIGTERM')
      }
      const [code] = child.exitCode === null ? await once(child, 'exit') : [child.exitCode]
      expect(
        out
          .trim()
          .split('\n')
          .map((line) => JSON.parse(line).leaf),
      ).to.deep.equal([2, 3])
      expect(code).to.equal(1)
    })

    it('refuses --from without --follow, and --follow with an end', async () => {
      expect(await audit('show', dir.path, '--from', '2')).to.include({ code: 2, out: '' })
      for (const end of ['--limit', '--last'])
        expect((await audit('show', dir.path, '--follow', end, '2')).code, end).to.equal(2)
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

  it('ends without an error when the reader closes the pipe', async () => {
    const appender = new SvcAppender({ config: { dir: dir.path, retentionDays: 9999 }, signer })
    await Promise.all(Array.from({ length: 3_000 }, () => appender.append(envelope())))
    await appender.close()
    const child = endWithRunner(
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

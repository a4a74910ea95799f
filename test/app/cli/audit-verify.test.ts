import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { auditCommand } from 'svc-sdk/internal/cli/audit'
import { appenderIn, DAY, envelope, signer } from '../../plugins/audit/log/writer/records.js'
import { testPasskey } from '../../support/authenticator.js'
import { audit, file, threeRecords } from './audit-rig.js'

describe('svc audit', () => {
  const { dir, tamper } = threeRecords()

  describe('verify', () => {
    it('exits 0 on an intact log and says that no other party confirms it', async () => {
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

    it('exits 2 on a log that cannot be read', async () => {
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
      const wrong = await audit('verify', dir.path, '--keys', other)
      expect([wrong.err, wrong.code]).to.deep.equal(['', 2])
      expect(wrong.out).to.include('cannot be judged: none of the given keys is one of this log')
    })

    it('takes no 32 bytes for a key that do not say which half of a key they are', async () => {
      const keys = join(dir.path, 'keys')
      writeFileSync(keys, Buffer.from(signer.publicKey).toString('base64'))
      const { err, code } = await audit('verify', dir.path, '--keys', keys)
      expect(err).to.include('write ed25519: before a public key')
      expect(code).to.equal(2)
    })

    it('takes the passkeys that a policy lists, and names every vote that none of them proves', async () => {
      const policy = join(dir.path, 'policy.yaml')
      const listed = (key: string) => `admin:\n  passkeys:\n    - { user: ann, public_key: ${key} }\n`
      writeFileSync(policy, listed(testPasskey().publicKey))
      const verify = () => audit('verify', dir.path, '--passkeys', policy)
      const intact = await verify()
      expect([intact.err, intact.code]).to.deep.equal(['', 0])
      expect(intact.out).to.include('0 votes proven by passkeys of their reviewers\n')
      const appender = appenderIn(dir.path)
      const event = { vote: 'approve', reviewer: 'ann of acme', proof: 'user_token' }
      await appender.append(envelope({ tool: 'escalations/vote@1', event }))
      await appender.close()
      const { err, code } = await verify()
      expect(err).to.match(/:4: bad_vote: no passkey proves the vote of "ann of acme"\n$/)
      expect(code).to.equal(1)
      writeFileSync(policy, 'admin: { passkeys: [{ user: ann }], roles: { reviewer: [approver] } }')
      const counted = await verify()
      expect([counted.err, counted.code]).to.deep.equal(['', 0])
      expect(counted.out).to.include('\n1 votes not judged by approval set or role: ')
      const { out } = await audit('verify', dir.path, '--passkeys', policy, '--json')
      expect(JSON.parse(out)).to.include({ verdict: 'intact', provenVotes: 0, unjudgedVotes: 1 })
      for (const [text, reason] of [
        ['server: {}', 'does not list passkeys under admin.passkeys'],
        [listed('AAAA'), 'admin.passkeys.0.public_key: '],
      ] as const) {
        writeFileSync(policy, text)
        const bad = await verify()
        expect([bad.err.includes(reason), bad.code], bad.err).to.deep.equal([true, 2])
      }
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

    it('checks only the tree with --fast', async () => {
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

    it('verifies what follows a head with --since, and limits the age of unsealed records', async () => {
      const kept = join(dir.path, 'kept.checkpoint')
      cpSync(join(dir.path, `audit-${DAY}.checkpoint`), kept)
      const appender = appenderIn(dir.path)
      await appender.append(envelope({ trace_id: 'dd' }))
      await appender.close()
      const { out, code } = await audit('verify', dir.path, '--since', kept, '--max-unsealed', '5m')
      expect(code).to.equal(0)
      expect(out)
        .to.include('only what follows 5 leaves was read, and days that have grown since')
        .and.include('1 records sealed by 1 journal lines, 0 not sealed yet')
      rmSync(join(dir.path, 'tree'), { recursive: true })
      expect((await audit('verify', dir.path, '--since', kept)).out).to.include('all of the log was read')
      const wrong = await audit('verify', dir.path, '--max-unsealed', '5')
      expect(wrong.code).to.not.equal(0)
      expect(wrong.err).to.include('expected an age such as 30s')
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
          .to.match(/^log log\.svc-audit\//)
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
      expect(shown.pop(), 'the bar is removed').to.equal('')
      expect(shown).to.not.have.length(0)
      for (const line of shown)
        expect(line).to.match(/ % {2}\d+ of \d+ MB {2}\d+ MB\/s {2}(\d+:)?\d+:\d\d left$/)
      shown.length = 0
      await auditCommand(io).parseAsync(['verify', dir.path, '--quiet'], { from: 'user' })
      expect(shown).to.deep.equal([])
    })

    it('exits 2 if the checkpoint kept elsewhere cannot be read', async () => {
      const { err, code } = await audit('verify', dir.path, '--against', join(dir.path, file))
      expect([err, code]).to.deep.equal([
        `svc-sdk audit verify: ${join(dir.path, file)} holds no checkpoint\n`,
        2,
      ])
    })
  })
})

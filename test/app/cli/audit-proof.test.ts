import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { appenderIn, DAY, envelope, signer } from '../../plugins/audit/log/writer/records.js'

import { audit, file, threeRecords } from './audit-rig.js'

describe('svc audit', () => {
  const { dir } = threeRecords()

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
        /trace bb, span .*\nleaf 2 of the 5 of log\.svc-audit\/[0-9a-f]{16}, sealed by ed25519:[0-9a-f]{64}\nproven\n$/,
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

    it('do not accept the signature of a key for leaves for which it is not trusted', async () => {
      const proof = join(dir.path, 'b.tlog-proof')
      const keys = join(dir.path, 'ranged.pub')
      await audit('prove', dir.path, '--trace-id', 'bb', '--out', proof)
      const written = await audit('verify', dir.path, '--keys', keyFile(), '--write-keys', keys)
      expect(written.code).to.equal(0)
      const [comment, line = ''] = readFileSync(keys, 'utf8').split('\n')
      expect(comment).to.match(/^# keys of log\.svc-audit\/[0-9a-f]{16}, .* as 5 leaves state$/)
      expect(line).to.match(/^ed25519:\S{44} 0$/)
      for (const [leaves, code, why] of [
        ['0', 0, 'proven'],
        ['0 5', 0, 'proven'],
        ['0 4', 1, 'its checkpoint of 5 leaves is signed by a key that is not trusted for them'],
        ['3 9', 1, 'the record is invalid: '],
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
          .split(/(?<=\n)(?=\S*svc-audit)/)
          .at(-1) ?? '',
      )
      writeFileSync(
        older,
        readFileSync(older, 'utf8')
          .split(/(?<=\n)(?=\S*svc-audit)/)
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

    it('writes the tree as tiles, names those that the log cannot give, and refuses a log that does not continue', async () => {
      const out = join(dir.path, 'tiles')
      const made = await audit('tiles', dir.path, '--out', out)
      expect(made).to.deep.include({ err: '', code: 0 })
      expect(made.out).to.match(/tiles: 5 leaves of log\.svc-audit\/[0-9a-f]{16}, 1 new tile, 0 absent\n$/)
      expect(readFileSync(join(out, 'tile/0/000.p/5')).length).to.equal(5 * 32)
      const checkpoint = join(out, 'checkpoint')
      writeFileSync(checkpoint, readFileSync(checkpoint, 'utf8').replace('\n5\n', '\n9\n'))
      const refused = await audit('tiles', dir.path, '--out', out)
      expect(refused.code).to.equal(1)
      expect(refused.err).to.match(/does not continue the checkpoint that is published at /)
    })

    it('prints a verifier key for other tools', async () => {
      const { out, code } = await audit('vkey', dir.path)
      expect(code).to.equal(0)
      expect(out).to.match(/^\S*log\.svc-audit\/[0-9a-f]{16}\+[0-9a-f]{8}\+[A-Za-z0-9+/]{44}\n$/)
    })
  })
})

import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { checkpointText, judgeCosignature } from '@svc/plugin-audit/internal/log/format/checkpoint'
import { parseNote } from '@svc/plugin-audit/internal/log/format/note'
import { parseWitnessKey, signNote } from '@svc/plugin-audit/internal/log/keys/signatures'
import { originHash } from '@svc/plugin-audit/internal/log/tools/witness/witness'
import { AuditError } from '@svc/plugin-audit/log'
import type { RunningWitness } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { temporaryDir } from '../../../../../support/temporary-dir.js'
import { diskWith, ioError, signer } from '../../writer/records.js'
import { MemoryLog, ORIGIN, post, vkeyOfLog, witnesses, witnessSigner } from './rig.js'

describe('a witness', () => {
  const dir = temporaryDir()
  const start = witnesses(dir)
  const log = new MemoryLog()

  const newest = (witness: RunningWitness) => fetch(`${witness.url}/${originHash(ORIGIN)}/checkpoint`)
  const stateFile = (name: string) => join(dir.path, name, `${originHash(ORIGIN)}.checkpoint`)

  it('cosigns a first checkpoint, and later ones that follow from it', async () => {
    const witness = await start('a')
    const key = parseWitnessKey(witness.vkey)
    for (const [older, newer] of [
      [0, 5],
      [5, 8],
      [8, 8],
      [8, 21],
    ] as const) {
      const { status, text, type } = await post(witness, await log.request(older, newer))
      expect([status, type], text).to.deep.equal([200, 'text/plain; charset=utf-8'])
      const signed = (await log.checkpoint(newer)) + text
      const judged = judgeCosignature(parseNote(signed)!, key)
      expect(judged.kind).to.equal('valid')
      expect(await (await newest(witness)).text()).to.equal(signed)
    }
  })

  it('serves the newest checkpoint that it cosigned, and 404 before the first', async () => {
    const witness = await start('a')
    const { status } = await newest(witness)
    expect(status).to.equal(404)
    expect((await fetch(`${witness.url}/checkpoint`)).status).to.equal(404)
    expect((await fetch(`${witness.url}/add-checkpoint`)).status).to.equal(405)
    expect((await post(witness, 'x'.repeat(70_000))).status).to.equal(413)
  })

  it('returns what the specification requires if it does not cosign', async () => {
    const witness = await start('a')
    const other = witnessSigner(9)
    const checkpoint = await log.checkpoint(5)
    const wrongSignature = checkpoint.replace('\n5\n', '\n6\n')
    const theirs = await log.checkpoint(5, other)
    const emptyRoot = await log.checkpoint(0)
    const text = `${ORIGIN}\n0\n${Buffer.alloc(32).toString('base64')}\n`
    const notEmpty = await signNote(text, ORIGIN, [signer])
    for (const [title, body, status] of [
      ['malformed', 'old x\n\n', 400],
      ['of an unknown log', `old 0\n\n${await log.checkpoint(5, signer, 'other.example/log')}`, 404],
      ['of an unknown key', `old 0\n\n${theirs}`, 403],
      ['with a wrong signature', `old 0\n\n${wrongSignature}`, 403],
      ['with an old size that is larger', `old 6\n\n${checkpoint}`, 400],
      ['with a proof for an empty tree', `old 0\n${log.proof(2, 5)}\n${checkpoint}`, 422],
      ['of an empty tree with a root', `old 0\n\n${notEmpty}`, 422],
      ['of an empty tree', `old 0\n\n${emptyRoot}`, 200],
    ] as const) {
      expect((await post(witness, body)).status, title).to.equal(status)
    }
    expect((await post(witness, await log.request(0, 5))).status).to.equal(200)
    const stale = await post(witness, await log.request(0, 8))
    expect([stale.status, stale.type, stale.text]).to.deep.equal([409, 'text/x.tlog.size', '5\n'])
    expect((await post(witness, await log.request(4, 8))).text).to.equal('5\n')
    expect((await post(witness, `old 5\n\n${await log.checkpoint(4)}`)).status).to.equal(400)
    expect((await post(witness, `old 5\n\n${await log.checkpoint(8)}`)).status).to.equal(422)
    expect((await post(witness, `old 5\n${log.proof(5, 8)}\n${await log.checkpoint(9)}`)).status).to.equal(
      422,
    )
    expect((await post(witness, `old 5\n${log.proof(4, 5)}\n${checkpoint}`)).status).to.equal(422)
    expect((await post(witness, await log.request(5, 8))).status).to.equal(200)
  })

  it('keeps two signed heads of one size with different roots as the evidence of a fork, once', async () => {
    const forks: string[] = []
    const witness = await start('a', { onFork: (_, why) => forks.push(why) })
    const forked = new MemoryLog((index) => (index < 4 ? `leaf ${index}` : `other ${index}`))
    await post(witness, await log.request(0, 6))
    const cosigned = await (await newest(witness)).text()
    const repeated = (await forked.request(0, 6)).replace(/(.+\n)$/, '$1$1$1')
    for (const body of [await forked.request(6, 6), repeated, await forked.request(4, 6)]) {
      expect((await post(witness, body)).status).to.equal(422)
    }
    expect(forks).to.deep.equal([
      'the log has signed another root of 6 leaves than the one that was cosigned',
    ])
    const kept = readFileSync(join(dir.path, 'a', `${originHash(ORIGIN)}.conflicts`), 'utf8')
    expect(kept).to.equal(cosigned + (await forked.checkpoint(6)))
    expect((await post(witness, await log.request(6, 9))).status).to.equal(200)
  })

  it('neither stores nor reports a checkpoint of the log that anyone sends with a wrong proof', async () => {
    const forks: string[] = []
    const witness = await start('a', { onFork: (_, why) => forks.push(why) })
    const forked = new MemoryLog((index) => (index < 4 ? `leaf ${index}` : `other ${index}`))
    await post(witness, await log.request(0, 6))
    const checkpoint = await log.checkpoint(9)
    for (const [body, status] of [
      [`old 6\n\n${checkpoint}`, 422],
      [`old 6\n${log.proof(5, 9)}\n${checkpoint}`, 422],
      [`old 6\n${log.proof(6, 9)}${log.proof(6, 9)}\n${checkpoint}`, 422],
      [await forked.request(6, 9), 422],
      [await forked.request(4, 9), 409],
    ] as const) {
      expect((await post(witness, body)).status).to.equal(status)
    }
    expect(forks).to.deep.equal([])
    expect(readdirSync(join(dir.path, 'a')).filter((name) => name.endsWith('.conflicts'))).to.deep.equal([])
  })

  it('reads back what it stored, however often the signature lines of a request are repeated', async () => {
    for (const times of [1, 2, 15, 16]) {
      const name = 'a'.repeat(times)
      const first = await start(name)
      const request = await log.request(0, 6)
      const line = request.slice(request.indexOf('\u2014'))
      expect((await post(first, request + line.repeat(times - 1))).status).to.equal(200)
      const stored = await (await newest(first)).text()
      expect(stored.split('\u2014')).to.have.length(3)
      await first.close()
      const second = await start(name)
      expect(await (await newest(second)).text()).to.equal(stored)
      expect((await post(second, await log.request(6, 9))).status).to.equal(200)
    }
  })

  it('repairs a state with more signature lines than a note may have', async () => {
    const first = await start('a')
    await post(first, await log.request(0, 6))
    await first.close()
    const stored = readFileSync(stateFile('a'), 'utf8')
    const line = /\u2014.*\n/.exec(stored)![0]
    for (const copy of ['', '-copy'])
      writeFileSync(`${stateFile('a')}${copy}`, stored.replace(line, line.repeat(16)))
    const second = await start('a')
    expect((await post(second, await log.request(6, 9))).status).to.equal(200)
    expect(readFileSync(stateFile('a'), 'utf8').split('\u2014')).to.have.length(3)
  })

  it('cosigns one of several concurrent checkpoints with the same old size', async () => {
    const witness = await start('a')
    const bodies = await Promise.all([5, 6, 7, 8].map((size) => log.request(0, size)))
    const statuses = (await Promise.all(bodies.map((body) => post(witness, body)))).map(
      ({ status }) => status,
    )
    expect(statuses.filter((status) => status === 200)).to.have.length(1)
    expect(statuses.filter((status) => status === 409)).to.have.length(3)
  })

  it('remembers after a restart', async () => {
    const first = await start('a')
    await post(first, await log.request(0, 6))
    await first.close()
    const second = await start('a')
    expect(second.vkey).to.equal(first.vkey)
    expect((await post(second, await log.request(0, 4))).text).to.equal('6\n')
    expect((await post(second, await log.request(6, 9))).status).to.equal(200)
  })

  it('repairs a damaged state from its copy, and does not take it for none if both are damaged', async () => {
    const errors: Error[] = []
    const first = await start('a')
    await post(first, await log.request(0, 6))
    await first.close()
    const stored = readFileSync(stateFile('a'), 'utf8')
    const [file, copy] = [stateFile('a'), `${stateFile('a')}-copy`]
    for (const damaged of ['', stored.slice(0, -10), stored.replace('\n6\n', '\n7\n')]) {
      for (const [paths, status] of [
        [[file], 409],
        [[copy], 409],
        [[file, copy], 500],
      ] as const) {
        for (const path of [file, copy]) writeFileSync(path, stored)
        for (const path of paths) writeFileSync(path, damaged)
        const second = await start('a', { onError: (error) => errors.push(error) })
        expect((await newest(second)).status).to.equal(status === 500 ? 404 : 200)
        expect((await post(second, await log.request(0, 4))).status).to.equal(status)
        if (status === 409)
          expect([file, copy].map((path) => readFileSync(path, 'utf8'))).to.deep.equal([stored, stored])
        await second.close()
      }
    }
    expect(errors).to.have.length(3)
  })

  it('takes the larger state if it died between writing the file and its copy', async () => {
    const first = await start('a')
    await post(first, await log.request(0, 6))
    const older = readFileSync(stateFile('a'), 'utf8')
    await post(first, await log.request(6, 9))
    await first.close()
    writeFileSync(`${stateFile('a')}-copy`, older)
    const second = await start('a')
    expect((await post(second, await log.request(6, 9))).text).to.equal('9\n')
  })

  it('logs nothing for a request that its client aborts', async () => {
    const errors: Error[] = []
    const witness = await start('a', { onError: (error) => errors.push(error) })
    const { hostname, port } = new URL(witness.url)
    for (const bytes of [0, 5, 5_000]) {
      const socket = connect(Number(port), hostname)
      socket.write(
        `POST /add-checkpoint HTTP/1.1\r\nhost: w\r\nexpect: 100-continue\r\ncontent-length: 60000\r\n\r\n`,
      )
      // After `100 Continue` the server is reading the body.
      await once(socket, 'data')
      socket.write('x'.repeat(bytes))
      socket.destroy()
      await once(socket, 'close')
    }
    expect((await post(witness, await log.request(0, 6))).status).to.equal(200)
    await witness.close()
    expect(errors).to.deep.equal([])
  })

  for (const call of ['openSync', 'writeSync', 'fsyncSync', 'renameSync'] as const) {
    it(`gives no cosignature that is not on disk: ${call} fails`, async () => {
      let fails = false
      const real = diskWith({})
      const disk = diskWith({
        [call]: (...given: never[]) => {
          if (fails) throw ioError('EIO')
          return (real[call] as (...values: never[]) => unknown)(...given)
        },
      })
      const witness = await start('a', { fileSystem: disk })
      await post(witness, await log.request(0, 5))
      fails = true
      expect((await post(witness, await log.request(5, 8))).status).to.equal(500)
      fails = false
      expect((await post(witness, await log.request(5, 8))).status).to.equal(200)
    })
  }

  it('refuses a directory that another process uses', async () => {
    await start('a')
    const error = await start('a').catch((cause: unknown) => cause)
    expect(error).to.be.instanceOf(AuditError)
    expect((error as AuditError).code).to.equal('lock_failed')
  })

  it('learns of new logs, and of the next key of a log, without a restart', async () => {
    const next = witnessSigner(8)
    const witness = await start('a')
    await post(witness, await log.request(0, 5))
    const body = async () => `old 5\n${log.proof(5, 8)}\n${await log.checkpoint(8, next)}`
    expect((await post(witness, await body())).status).to.equal(403)
    writeFileSync(
      join(dir.path, 'a.logs'),
      `${vkeyOfLog(ORIGIN, signer)}\n\n${vkeyOfLog(ORIGIN, next)}\n${vkeyOfLog('other.example')} a name with spaces\n`,
    )
    expect((await post(witness, await body())).status).to.equal(200)
    const spaced = checkpointText({ origin: 'a name with spaces', size: 3, root: log.root(3) })
    const ofOther = `old 0\n\n${await signNote(spaced, 'other.example', [signer])}`
    expect((await post(witness, ofOther)).status).to.equal(200)
    writeFileSync(join(dir.path, 'a.logs'), 'no key\n')
    expect((await post(witness, await log.request(8, 9))).status).to.equal(500)
  })

  it('does not start without its file of logs, or with a name that no signature line can have', async () => {
    const code = async (changes: object) =>
      (await start('a', changes).catch((e: AuditError) => e.code)) as string
    expect(await code({ logs: join(dir.path, 'none') })).to.equal('read_failed')
    expect(await code({ name: 'a name' })).to.equal('bad_config')
    expect(await code({ trusted: 'no key' })).to.equal('key_malformed')
  })
})

// An agent with a shell of another user than the gateway's: it reads no secret of the gateway, and with the admin token it still
// cannot approve its own call where votes need a passkey.
import { execFile } from 'node:child_process'
import { chmodSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect } from 'chai'
import { adminToken } from '../../app/admin/rig.js'
import { ofSuite } from '../../support/parts.js'
import { copyQuickStart, startQuickStart } from '../../support/quick-start.js'
import { temporaryDir } from '../../support/temporary-dir.js'
import { startOffice } from './office.js'

const nobody = { uid: 65_534, gid: 65_534 }

/** Prints those of the given files that it can read. */
const readable = `
const { accessSync, constants } = require('node:fs')
for (const path of process.argv.slice(1)) {
  try {
    accessSync(path, constants.R_OK)
    console.log(path)
  } catch (error) {
    if (error.code !== 'EACCES') throw error
  }
}
`

/** Asks for a challenge, signs it by a key of its own, and votes; prints each status. */
const votesByOwnKey = `
const { createHash, generateKeyPairSync, sign } = require('node:crypto')
const [origin, id, token, credential] = process.argv.slice(1)
const sha256 = (data) => createHash('sha256').update(data).digest()
const headers = { authorization: 'Bearer ' + token, 'content-type': 'application/json' }
const post = async (what, body) => {
  const path = '/api/escalations/' + id + '/' + what
  const response = await fetch(origin + path, { method: 'POST', headers, body: JSON.stringify(body) })
  console.log(what, response.status)
  return response.json()
}
const main = async () => {
  const vote = { vote: 'approve' }
  const { challenge = 'AAAA', nonce = '1' } = await post('challenge', vote)
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
  const client = Buffer.from(JSON.stringify({ type: 'webauthn.get', challenge, origin, crossOrigin: false }))
  const data = Buffer.concat([sha256(new URL(origin).hostname), Buffer.from([5, 0, 0, 0, 1])])
  const signature = sign('sha256', Buffer.concat([data, sha256(client)]), privateKey)
  const text = (bytes) => bytes.toString('base64url')
  const passkey = { nonce, credential_id: credential, authenticator_data: text(data), client_data_json: text(client), signature: text(signature) }
  await post('votes', { ...vote, passkey })
  await post('votes', vote)
}
main()
`

async function asNobody(script: string, args: readonly string[]): Promise<string[]> {
  const { stdout } = await promisify(execFile)(process.execPath, ['-e', script, ...args], {
    ...nobody,
    cwd: '/',
  })
  return stdout.split('\n').filter((line) => line !== '')
}

describe('an agent with a shell of another user', () => {
  const home = temporaryDir()

  before(function () {
    if (process.getuid?.() === 0) return
    console.log('  skipped: only the superuser starts a process of another user')
    this.skip()
  })

  it('reads neither the admin token nor a key of the gateway', async () => {
    const directory = copyQuickStart(home.path)
    await using example = startQuickStart(directory)
    await example.prints(/the token to sign in with is in/)
    chmodSync(home.path, 0o755)
    const state = readdirSync(join(directory, '.svc'), { recursive: true, encoding: 'utf8' })
    expect(state).to.include.members(['admin.token', 'signing.key'])
    const policy = join(directory, 'policy.yaml')
    const paths = [policy, ...state.map((name) => join(directory, '.svc', name))]
    expect(await asNobody(readable, paths)).to.deep.equal([policy])
  })

  describe('and the admin token', () => {
    const office = ofSuite(() => startOffice())

    it('does not approve its own call, as its key is not the passkey of a reviewer', async () => {
      const [id] = office.waiting
      const { id: credential } = office.keys.ann
      const said = await asNobody(votesByOwnKey, [office.origin, id, adminToken, credential])
      expect(said).to.have.length(3)
      for (const line of said) expect(line).to.match(/ 403$/)
      expect(await office.show(id)).to.deep.include({ status: 'pending', votes: [] })
      expect((await office.call(1)).status).to.equal(403)
    })
  })
})

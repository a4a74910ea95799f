// Runs `svc policy` on the policies of test/fixtures.
import { randomBytes } from 'node:crypto'
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Printed, runPolicy } from '../../support/policy-command.js'

const source = fileURLToPath(new URL('../../../fixtures/policies/', import.meta.url))

/** A copy of the policies with the key files that the valid ones name. */
export const fixtures = `${mkdtempSync(join(tmpdir(), 'svc-policies-'))}/`
cpSync(source, fixtures, { recursive: true })
// The custom plugins import packages.
symlinkSync(fileURLToPath(new URL('../../../../node_modules', import.meta.url)), `${fixtures}node_modules`)
process.once('exit', () => rmSync(fixtures, { recursive: true }))
const keys = ['keys/audit.key', 'keys/files', 'keys/client.pem', 'tls/gateway.key', 'tls/gateway.crt']
for (const key of [...keys, 'tls/clients.crt', 'tls/admin.key', 'tls/admin.crt']) {
  for (const folder of ['valid', 'invalid']) {
    mkdirSync(dirname(join(fixtures, folder, key)), { recursive: true })
    writeFileSync(join(fixtures, folder, key), randomBytes(32).toString('base64'), { mode: 0o600 })
  }
}

/** The environment of the fixtures. `SVC_TEST_UNSET` stays unset. */
export const secret = 'hunter2-of-the-fixtures'
const env = {
  SVC_TEST_SECRET: secret,
  SVC_TEST_TENANT: 'acme',
  SVC_TEST_HOST: '127.0.0.1',
  SVC_TEST_PORT: '9000',
  SVC_TEST_OPEN: 'true',
}

/** The lines are without the directory of the fixtures. */
export async function policy(...args: string[]): Promise<Printed> {
  const { lines, errors, exit } = await runPolicy(args, env)
  const short = (line: string) => line.replaceAll(fixtures, '')
  return { lines: lines.map(short), errors: errors.map(short), exit }
}

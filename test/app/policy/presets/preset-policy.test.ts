// A preset is a policy that loads without a warning, whatever the names of servers, directories and users are.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import fc from 'fast-check'
import { diagnosticsOf, loadPolicyFile } from 'svc-sdk/internal/cli/policy-file'
import { type PresetPlace, presetPolicy, presets } from 'svc-sdk/internal/policy/presets/preset-policy'
import { runPolicy } from '../../../support/policy-command.js'

describe('a preset', () => {
  const dir = mkdtempSync(join(tmpdir(), 'svc-preset-'))
  const file = join(dir, 'svc.yaml')
  const place: PresetPlace = {
    targets: {
      files: {
        command: process.execPath,
        args: ['-y', '--port=1', '/srv/docs', 'no', '1', ''],
        env: { A: 'env:A' },
      },
      remote: 'https://mcp.example.com/mcp',
    },
    port: 8787,
    stateDir: '.svc',
    keyPath: 'key',
    user: 'ada',
    directories: ['/srv/docs'],
    admin: { port: 8789, tokenPath: '.svc/admin.token' },
  }

  before(() => {
    generateKeyFile(join(dir, 'key'))
    generateKeyFile(join(dir, '.svc/admin.token'))
  })
  after(() => rmSync(dir, { recursive: true }))

  async function load(text: string, env: Record<string, string> = { A: 'a' }) {
    writeFileSync(file, text)
    const result = await loadPolicyFile(file, env, true)
    expect(
      diagnosticsOf(result).map(({ path, message }) => `${path}: ${message}`),
      text,
    ).to.deep.equal([])
    if (!result.ok) throw new Error('unreachable')
    return result.policy
  }

  for (const preset of presets) {
    for (const admin of [place.admin, undefined]) {
      it(`${preset} loads without a warning ${admin === undefined ? 'without' : 'with'} approvals`, async () => {
        const { admin: _admin, ...rest } = place
        const policy = await load(presetPolicy(preset, admin === undefined ? rest : { ...rest, admin }))
        expect(policy.host.targets['files']).to.deep.include({
          args: ['-y', '--port=1', '/srv/docs', 'no', '1', ''],
        })
        expect(policy.host.targets['remote']).to.equal('https://mcp.example.com/mcp')
      })
    }
  }

  it('has the same sections in observe as in guard, so that what guard refuses is found', async () => {
    const [observe, guard] = [
      await load(presetPolicy('observe', place)),
      await load(presetPolicy('guard', place)),
    ]
    expect([...observe.sections.keys()]).to.deep.equal([...guard.sections.keys()])
    for (const [name, section] of guard.sections) {
      if (name === 'enforcement' || name === 'entitlements') continue
      expect(observe.sections.get(name), name).to.deep.equal(section)
    }
  })

  const risky =
    'delete_item DeleteItem removeUser rm rm_file unlink kill killProcess bash run_bash runCommand run_command terminal_run_command execute_sql Pay sendMoney send_money'
  const harmless =
    'read_file list_items search_skills get_alarm firmware_info payload_size running_commands_help evaluate'
  it('guard denies tools by common names of deletions, commands and payments, and no others', async () => {
    const { admin: _admin, ...rest } = place
    writeFileSync(file, presetPolicy('guard', rest))
    const cases = [
      ...risky.split(' ').map((tool) => ({ name: tool, call: `files/${tool}`, expect: 'deny' })),
      ...harmless.split(' ').map((tool) => ({ name: tool, call: `files/${tool}`, expect: 'allow' })),
    ]
    const tests = join(dir, 'svc.test.yaml')
    writeFileSync(tests, JSON.stringify({ cases }))
    const { lines, errors, exit } = await runPolicy(['test', tests], { A: 'a' })
    expect(errors).to.deep.equal([])
    expect(lines.filter((line) => line.includes('FAIL'))).to.deep.equal([])
    expect(exit).to.equal(0)
  })

  it('has every name, path and argument as it was given', async () => {
    const seed = Number(process.env['SVC_PRESET_SEED'] ?? 24)
    const text = fc
      .string({ unit: 'binary', minLength: 1, maxLength: 12 })
      .filter((one) => !one.includes('${'))
    const word = fc.constantFrom(
      'no',
      'null',
      '~',
      '1',
      '0x1',
      '1e3',
      '.5',
      '-',
      '- a',
      'a: b',
      'a #b',
      '*x',
      '&x',
      '{',
      '[',
    )
    const any = fc.oneof(
      text,
      word,
      fc.constantFrom('https://a.example:1/b', '/a/b.c', '-y', '@a/b@1.0', 'é', '\u0085'),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(any, { maxLength: 4 }), any, async (args, user) => {
        const targets = { one: { command: process.execPath, args } }
        const policy = await load(presetPolicy('guard', { ...place, targets, user }))
        expect(policy.host.targets['one']).to.deep.include({ args })
        expect(policy.sections.get('authn')).to.have.nested.property('stdioCaller.user', user)
      }),
      { seed, numRuns: 60 },
    )
  })
})

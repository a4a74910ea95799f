// Runs the stage with which docs/writing-a-stage.md begins.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { Plugin, Stage } from '@svc/core'
import { expect } from 'chai'
import { conformance } from 'svc-sdk/testing'
import { StageRig, send } from '../support/stage-rig.js'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const page = readFileSync(join(root, 'docs/writing-a-stage.md'), 'utf8')
const [, code = ''] = /```js\n([\s\S]*?)```/.exec(page) ?? []
// Inside the repository, so that its imports resolve.
const directory = mkdtempSync(join(root, 'test', 'dist', 'whole-stage-'))
const file = join(directory, 'read-only.mjs')
writeFileSync(file, code)
const { default: plugin } = (await import(pathToFileURL(file).href)) as { default: Plugin }
rmSync(directory, { recursive: true })

/** The members of a plugin and of a stage: another list does not compile. */
const ofPlugin: { readonly [Member in keyof Plugin]-?: 'needed' | 'optional' } = {
  name: 'needed',
  version: 'needed',
  core: 'needed',
  schema: 'needed',
  create: 'needed',
  phase: 'optional',
  reasons: 'optional',
  uses: 'optional',
  provides: 'optional',
  owns: 'optional',
  check: 'optional',
}
const ofStage: { readonly [Member in keyof Stage]-?: 'needed' | 'optional' } = {
  handle: 'needed',
  start: 'optional',
  stop: 'optional',
  health: 'optional',
  effects: 'optional',
  doctor: 'optional',
}

describe('docs/writing-a-stage.md', () => {
  const [plugins = '', stages = ''] = page
    .slice(page.indexOf('These five members'), page.indexOf('## Loading it'))
    .split('Of a stage only')
  for (const { title, table, members, needed } of [
    { title: 'plugin', table: plugins, members: ofPlugin, needed: 5 },
    { title: 'stage', table: stages, members: ofStage, needed: 1 },
  ]) {
    it(`shows every member of a ${title}, of which ${needed} cannot be absent`, () => {
      const rows = [...table.matchAll(/^\| (`.*?) \|/gm)].map(([, names = '']) => names)
      const shown = rows.flatMap((names) => [...names.matchAll(/`(\w+)/g)].map(([, name]) => name))
      expect(shown).to.have.members(Object.keys(members))
      expect(Object.values(members).filter((need) => need === 'needed')).to.have.lengthOf(needed)
    })
  }
})

describe('the stage with which the docs begin', () => {
  for (const { title, run } of conformance(plugin, { validConfig: { tenants: ['acme'] } })) it(title, run)

  it('has fewer than 32 lines', () => {
    expect(code.split('\n')).to.have.length.below(32)
  })

  for (const [tool, tenant, found] of [
    ['delete_file', 'acme', ['read_only']],
    ['delete_file', 'globex', []],
    ['list_files', 'acme', []],
  ] as const) {
    it(`reports ${found.length === 0 ? 'no' : 'a'} finding for ${tool} of tenant ${tenant}`, async () => {
      await using rig = new StageRig()
      const stage = await rig.start(plugin, { tenants: ['acme'] })
      const { call } = await send(stage, { tool, caller: { tenant } })
      expect(call.findings.map(({ reason }) => reason)).to.deep.equal(found)
    })
  }
})

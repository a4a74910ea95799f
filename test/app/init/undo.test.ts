// `svc init` and `--undo` over generated configurations of every client.
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import fc from 'fast-check'
import { applyEdits, modify, parse } from 'jsonc-parser'
import { configurationPlaces } from 'svc-sdk/internal/init/clients/clients'
import type { Run } from '../../support/command.js'
import { propertyRuns } from '../../support/property-runs.js'
import { configurations, type GeneratedFile, writeConfiguration } from './generated-configurations.js'
import { Home } from './home.js'

const seed = Number(process.env['SVC_INIT_SEED'] ?? 24)

/** Templates: places of a home that is made anew for each run. */
const places = configurationPlaces({ env: { HOME: '/h' }, platform: process.platform, dir: '/h/project' })

function property(
  check: (home: Home, files: readonly GeneratedFile[]) => Promise<void>,
  runs: number,
): Promise<void> {
  return fc.assert(
    fc.asyncProperty(configurations(places), async (templates) => {
      using home = new Home()
      home.writeNpm()
      const files = templates.map((file) => {
        const place = home.places.find(({ file: path }) => path === file.place.file.replace('/h', home.path))
        if (place === undefined) throw new Error('unreachable')
        return { ...file, place }
      })
      for (const file of files) writeConfiguration(file)
      await check(home, files)
    }),
    { seed, numRuns: propertyRuns(runs) },
  )
}

function init(home: Home, files: readonly GeneratedFile[]): Promise<Run> {
  return home.run(
    '--yes',
    ...files.flatMap(({ place }) => (place.isOfDirectory ? ['--yes-to', place.file] : [])),
  )
}

describe('svc init', function () {
  this.timeout(propertyRuns(120_000))

  it('is undone byte for byte, shows no secret, and changes nothing the second time', async () => {
    await property(async (home, files) => {
      const before = home.content()
      const { out, err, code } = await init(home, files)
      expect(code, out + err).to.equal(0)
      const policy = readFileSync(join(home.project, 'svc.yaml'), 'utf8')
      const tests = readFileSync(join(home.project, 'svc.test.yaml'), 'utf8')
      const changed = files.map(({ place }) => readFileSync(place.file, 'utf8'))
      expect(policy).to.not.include('command: npx')
      for (const { text } of files.flatMap(({ secrets }) => secrets)) {
        for (const shown of [out, err, policy, tests, ...changed]) expect(shown).to.not.include(text)
      }
      for (const [index, file] of files.entries()) {
        expect(changed[index]).to.include('svc.yaml')
        expect(statSync(file.place.file).mode & 0o777).to.equal(0o640)
      }
      const after = home.content()
      for (const [path, text] of Object.entries(after)) {
        if (path.startsWith('project/.svc/') && text !== 'directory') expect(text, path).to.match(/^600 /)
      }
      const again = await init(home, files)
      expect(again).to.include({ code: 0, err: '' })
      expect(home.content()).to.deep.equal(after)
      expect((await home.run('--undo', '--yes')).code).to.equal(0)
      expect(home.content()).to.deep.equal(before)
    }, 10)
  })

  it('takes out its own change alone from a file that was edited since', async () => {
    await property(async (home, files) => {
      const edit = (text: string) => text.replace('{', '{"edited": true, ')
      const expected = files.map(({ bytes }) => edit(bytes.toString()))
      await init(home, files)
      for (const { place } of files) writeFileSync(place.file, edit(readFileSync(place.file, 'utf8')))
      expect(await home.run('--undo', '--yes')).to.include({ code: 0, err: '' })
      for (const [index, { place }] of files.entries()) {
        expect(readFileSync(place.file, 'utf8')).to.equal(expected[index])
      }
    }, 8)
  })

  it('keeps what a client adds to an entry, and what it writes anew', async () => {
    await property(async (home, files) => {
      await init(home, files)
      const edited = (text: string, { entry }: GeneratedFile) => {
        const path = [...entry, 'alwaysAllow']
        const plain = text.replace('\uFEFF', '')
        return JSON.stringify(parse(applyEdits(plain, modify(plain, path, ['read'], {}))))
      }
      const expected = files.map((file) => edited(file.bytes.toString(), file))
      for (const file of files)
        writeFileSync(file.place.file, edited(readFileSync(file.place.file, 'utf8'), file))
      expect(await home.run('--undo', '--yes')).to.include({ code: 0, err: '' })
      const now = files.map(({ place }) => parse(readFileSync(place.file, 'utf8')) as unknown)
      expect(now).to.deep.equal(expected.map((text) => JSON.parse(text) as unknown))
    }, 8)
  })

  it('undoes two runs, between which every file got a server', async () => {
    await property(async (home, files) => {
      const added = (text: string, { entry }: GeneratedFile) => {
        const plain = text.replace('\uFEFF', '')
        const server = { command: 'added', args: ['--token=s3cretvalue1'] }
        return applyEdits(plain, modify(plain, [...entry.slice(0, -1), 'added'], server, {}))
      }
      const expected = files.map((file) => added(file.bytes.toString(), file))
      await init(home, files)
      for (const file of files)
        writeFileSync(file.place.file, added(readFileSync(file.place.file, 'utf8'), file))
      const again = await init(home, files)
      expect(again).to.include({ code: 0, err: '' })
      for (const { place } of files) expect(readFileSync(place.file, 'utf8')).to.not.include('s3cretvalue1')
      expect(await home.run('--undo', '--yes')).to.include({ code: 0, err: '' })
      const now = files.map(({ place }) => parse(readFileSync(place.file, 'utf8')) as unknown)
      expect(now).to.deep.equal(expected.map((text) => parse(text) as unknown))
      expect(readdirSync(home.project)).to.not.include.oneOf(['svc.yaml', '.svc', 'mcp-servers'])
    }, 4)
  })

  it('undoes a run that was killed before it had changed everything', async () => {
    await property(async (home, files) => {
      const before = home.content()
      await init(home, files)
      for (const file of files.slice(1)) writeFileSync(file.place.file, file.bytes)
      rmSync(join(home.project, 'svc.test.yaml'))
      expect(await home.run('--undo', '--yes')).to.include({ code: 0, err: '' })
      expect(home.content()).to.deep.equal(before)
    }, 5)
  })

  it('refuses to undo an entry whose command was changed since, and then changes nothing', async () => {
    await property(async (home, files) => {
      await init(home, files)
      const [file] = files
      if (file === undefined) return
      writeFileSync(file.place.file, readFileSync(file.place.file, 'utf8').replace('"--policy"', '"--other"'))
      const before = home.content()
      const { code, err } = await home.run('--undo', '--yes')
      expect(code).to.equal(1)
      expect(err).to.include('was edited since init wrote it').and.include('+ args is another')
      expect(home.content()).to.deep.equal(before)
    }, 5)
  })
})

import { appendFileSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { signJson } from '@svc/plugin-audit/internal/log/keys/signed-json'
import { expect } from 'chai'
import fc from 'fast-check'
import { propertyRuns } from '../../../../support/property-runs.js'
import { TemporaryDir, temporaryDir } from '../../../../support/temporary-dir.js'
import { signer } from '../writer/records.js'
import { ExportRig } from './rig.js'

const DAYS = ['2026-11-19', '2026-11-20', '2026-11-21'] as const

describe('the export of a log', () => {
  const dir = temporaryDir()

  it('sends each record at least once, and states each one that retention removed first', async () => {
    const day = fc.constantFrom(...DAYS)
    const step = fc.oneof(
      {
        weight: 6,
        arbitrary: fc.record({
          kind: fc.constant('append' as const),
          day,
          count: fc.integer({ min: 1, max: 9 }),
        }),
      },
      { weight: 3, arbitrary: fc.record({ kind: fc.constant('round' as const) }) },
      {
        weight: 3,
        arbitrary: fc.record({
          kind: fc.constant('failure' as const),
          takes: fc.integer({ min: 0, max: 9 }),
        }),
      },
      { weight: 2, arbitrary: fc.record({ kind: fc.constant('restart' as const) }) },
      { weight: 1, arbitrary: fc.record({ kind: fc.constant('standby' as const) }) },
      {
        weight: 1,
        arbitrary: fc.record({
          kind: fc.constant('remove' as const),
          day: fc.constantFrom(DAYS[0], DAYS[1]),
        }),
      },
    )
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
        using folder = new TemporaryDir()
        const rig = new ExportRig(folder.path)
        const kept = new Map<string, string[]>()
        const removed = new Set<string>()
        /** Bytes that were seen by a round that was not `standby`. */
        const lost = new Map<string, number>()
        for (const one of steps) {
          if (one.kind === 'append' && !removed.has(one.day)) {
            for (let n = 0; n < one.count; n++)
              kept.set(one.day, [...(kept.get(one.day) ?? []), rig.append(one.day)])
          } else if (one.kind === 'round' || one.kind === 'failure' || one.kind === 'standby') {
            rig.receiver.takes = one.kind === 'failure' ? one.takes : undefined
            rig.isStandby = one.kind === 'standby'
            const { isStandby } = await rig.round()
            expect(isStandby).to.equal(rig.isStandby)
          } else if (one.kind === 'restart') {
            rig.restart()
          } else if (one.kind === 'remove' && kept.has(one.day)) {
            // A round has seen the day, so that its size is known.
            rig.receiver.takes = 0
            rig.isStandby = false
            await rig.round()
            const { offset, pending = offset } = rig.positions()[`audit-${one.day}.ndjson`] ?? { offset: 0 }
            if (pending > offset) lost.set(one.day, pending - offset)
            rig.remove(one.day)
            kept.delete(one.day)
            removed.add(one.day)
          }
        }
        rig.receiver.takes = undefined
        rig.isStandby = false
        rig.restart()
        expect(await rig.round()).to.deep.equal({ isStandby: false })
        expect(rig.receiver.taken).to.include.members([...kept.values()].flat())
        const stated = rig.gaps.map(({ day, bytes, reason }) => [day, bytes, reason])
        expect(stated).to.have.deep.members([...lost].map(([day, bytes]) => [day, bytes, 'removed']))
        const before = rig.receiver.taken.length
        await rig.round()
        expect(rig.receiver.taken, 'nothing is sent again').to.have.length(before)
      }),
      { seed: 25_12, numRuns: propertyRuns(60) },
    )
  })

  it('sends late records of the day before, after midnight', async () => {
    const rig = new ExportRig(dir.path)
    const sent = [rig.append(DAYS[0]), rig.append(DAYS[1])]
    await rig.round()
    sent.push(rig.append(DAYS[0]), rig.append(DAYS[2]))
    await rig.round()
    expect(rig.receiver.taken).to.deep.equal(sent)
  })

  it('sends no incomplete line, and states lines that are not records', async () => {
    const rig = new ExportRig(dir.path)
    const first = rig.append(DAYS[0])
    rig.append(DAYS[0], '{"not":"a record"}')
    const last = rig.append(DAYS[0])
    appendFileSync(rig.path(DAYS[0]), '{"ts":"20')
    await rig.round()
    expect(rig.receiver.taken).to.deep.equal([first, last])
    expect(rig.gaps).to.deep.equal([{ receiver: 'siem', day: DAYS[0], bytes: 19, reason: 'damaged' }])
  })

  it('begins anew with positions that the log has not signed, and repeats a day that has become shorter', async () => {
    const rig = new ExportRig(dir.path)
    const spans = [rig.append(DAYS[0]), rig.append(DAYS[0])]
    const { size } = statSync(rig.path(DAYS[0]))
    const forged = {
      version: 1,
      files: { [`audit-${DAYS[0]}.ndjson`]: { offset: size, updatedAt: '2026-11-21T00:00:00Z' } },
    }
    writeFileSync(
      join(dir.path, '.svc-export-siem.json'),
      JSON.stringify({ ...forged, key_id: 'x', sig: 'ed25519:AA==' }),
    )
    await rig.round()
    expect(rig.receiver.taken).to.deep.equal(spans)
    expect(rig.warnings[0]).to.include('untrusted: it begins anew')
    truncateSync(rig.path(DAYS[0]), size / 2)
    rig.restart()
    await rig.round()
    expect(rig.receiver.taken).to.deep.equal([...spans, spans[0]])
    expect(rig.warnings[1]).to.include('the day is exported again')
  })

  it('begins anew with the positions of another receiver, or of the upload', async () => {
    for (const file of ['.svc-export-other.json', '.svc-presign-state.json', undefined]) {
      const rig = new ExportRig(dir.path)
      const spans = [rig.append(DAYS[0])]
      const files = {
        [`audit-${DAYS[0]}.ndjson`]: { offset: statSync(rig.path(DAYS[0])).size, updatedAt: '' },
      }
      const signed = await signJson({ version: 1, file, files, key_id: signer.keyId }, signer)
      writeFileSync(join(dir.path, '.svc-export-siem.json'), JSON.stringify(signed))
      await rig.round()
      expect(rig.receiver.taken, file).to.deep.equal(spans)
      expect(rig.warnings, file).to.deep.equal([
        'the positions of the export to siem are untrusted: it begins anew',
      ])
      rig.remove(DAYS[0])
    }
  })

  it('holds a bounded number of records, of a backlog of any length', async () => {
    const rig = new ExportRig(dir.path)
    rig.append(DAYS[0])
    const line = readFileSync(rig.path(DAYS[0]), 'utf8')
    const count = 20_000
    writeFileSync(rig.path(DAYS[0]), line.repeat(count))
    await rig.round()
    expect(rig.receiver.taken).to.have.length(count)
    expect(rig.receiver.largestBatch * line.length).to.be.below(600_000)
  })
})

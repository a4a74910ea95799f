// Measures the rules on texts with collections of attacks and of harmless texts, which are not kept here:
//   node scripts/measure-texts.mjs FILE...   each line {"source", "role": definition|result|argument, "attack": bool, "text"}
import { readFileSync } from 'node:fs'
import { TextScanner } from '../plugins/protections/dist/text/scan.js'

const scanners = Object.fromEntries(
  ['definition', 'result', 'argument'].map((role) => [role, new TextScanner(role)]),
)
const rows = new Map()
for (const line of process.argv.slice(2).flatMap((file) => readFileSync(file, 'utf8').trim().split('\n'))) {
  const { source, role, attack, text } = JSON.parse(line)
  const key = `${source}, ${role}, ${attack ? 'attacks' : 'harmless'}`
  const row = rows.get(key) ?? { texts: 0, found: 0, certain: 0 }
  const findings = scanners[role].scan(text)
  rows.set(key, {
    texts: row.texts + 1,
    found: row.found + Number(findings.length > 0),
    certain: row.certain + Number(findings.some(({ certain }) => certain)),
  })
}
console.table(Object.fromEntries(rows))

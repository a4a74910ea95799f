// Detects secrets, personal data and attacks on the model in a value, for labels.
import { ReadingBudget } from '../shared/reading-budget.js'
import { TextScanner } from './scan.js'
import { TextSearch } from './texts.js'

type Detected = 'secret' | 'personal_data' | 'attack'

let scanners: readonly [TextScanner, TextScanner] | undefined

/** A value that is too long to be searched has all of them. */
export async function detectorsIn(value: unknown): Promise<ReadonlySet<Detected>> {
  scanners ??= [new TextScanner('argument'), new TextScanner('result')]
  const budget = new ReadingBudget()
  const [data, attacks] = scanners.map((scanner) => new TextSearch(scanner, budget))
  const found = new Set<Detected>()
  for (const search of [data, attacks]) {
    if (search === undefined) continue
    await search.value(value)
    if (search.isIncomplete) return new Set(['secret', 'personal_data', 'attack'])
  }
  for (const { finding } of data?.found ?? []) {
    if (finding.rule.class === 'secret') found.add('secret')
    if (finding.rule.class === 'personal') found.add('personal_data')
  }
  if (attacks?.found.some(({ finding }) => finding.certain) === true) found.add('attack')
  return found
}

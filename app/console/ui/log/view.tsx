// The view of the log: its days, its heads, its records, and evidence.
import { LogIcon } from '../kit/icons.js'
import { defineView } from '../kit/view.js'
import { loadLog } from './load.js'
import { Log } from './log.js'

export const logView = defineView({
  id: 'log',
  title: 'Log',
  Icon: LogIcon,
  isFor: ({ may, approval_sets: sets }) => may.read_outlines || may.read_calls || sets.length > 0,
  load: loadLog,
  View: Log,
})

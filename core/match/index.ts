// References of tools, prompts and resources, and patterns over them.
export { decodeEscapes, EscapeError } from './escapes.js'
export { foldName } from './fold.js'
export { type Glob, globMatches, globOf } from './glob.js'
export {
  compilePatternMap,
  compilePatternSet,
  type PatternMap,
  type PatternMatches,
  type PatternSet,
} from './matcher.js'
export {
  isTie,
  type NameMatch,
  NamePatterns,
  nameOutside,
  namePatternError,
  specificityOf,
} from './names.js'
export { hasPiledUpMarks, normalized } from './normalize.js'
export { compilePattern, exactPattern, PatternError } from './pattern.js'
export {
  formatNameSegment,
  formatReference,
  formatToolSegment,
  isVersion,
  parseNameSegment,
  parseReference,
  parseToolSegment,
  pathReadings,
  type Reference,
  ReferenceInputError,
} from './reference.js'
export { foldReference } from './subject.js'
export { wordsOf } from './words.js'
